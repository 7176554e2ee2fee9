"""From stored records to columns of Arrow."""
