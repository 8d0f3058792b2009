#!/bin/sh
# After the installation of a package: the users of the units, and the units themselves. Nothing is started: settings come first.
set -e
if command -v systemd-sysusers >/dev/null; then systemd-sysusers sagalog.conf; fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
