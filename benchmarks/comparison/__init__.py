"""RouteLog beside another broker: `make bench`."""
