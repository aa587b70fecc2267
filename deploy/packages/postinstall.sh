#!/bin/sh
# Makes the user of the units. They are not started: they need the URL of a store in /etc/soloist/store.
set -e
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers soloist.conf
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
