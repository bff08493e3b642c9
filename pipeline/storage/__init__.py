"""Files and stores: whole-or-nothing destinations, locks, checksums, limits on what is read."""
