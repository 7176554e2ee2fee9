"""Fairness: how long a bystander waits while another client causes a storm."""
