"""Where logs are found and read: a directory, a broker's HTTP service, a bucket."""
