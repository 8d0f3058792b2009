package main

import (
	"fmt"
	"net"
	"os"
)

// notifyReady says to the service manager (systemd's Type=notify) that the start is over, if it asked for that: sd_notify(3).
func notifyReady() error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", name)
	if err == nil {
		_, err = conn.Write([]byte("READY=1"))
		_ = conn.Close()
	}
	if err != nil {
		return fmt.Errorf("notify the service manager (NOTIFY_SOCKET) that the start is complete: %w", err)
	}
	return nil
}
