"""The routes of the service, one file for each group; the list of them is in `discreet.service.app`."""
