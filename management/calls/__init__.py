"""One call of the HTTP API: who calls, what is answered, and what fails."""
