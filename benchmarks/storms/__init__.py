"""What a bystander waits while another client is a storm."""
