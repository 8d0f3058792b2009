package dronedelivery

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// The five services, in the order in which ports are given to them.
const (
	Account   = "account"
	Package   = "package"
	Transport = "transport"
	Drone     = "drone"
	Delivery  = "delivery"
)

// Services returns the names of the five services.
func Services() []string { return []string{Account, Package, Transport, Drone, Delivery} }

// EnvName returns the variable in which the agent binding of a service looks for its URL: PACKAGE_URL.
func EnvName(service string) string { return strings.ToUpper(service) + "_URL" }

// Config says where the services listen, where they keep their ledgers, and how they are broken from the start.
type Config struct {
	// Dir holds the ledgers; it is made with mode 0700 if missing. Required.
	Dir string
	// Addr is a loopback host, with or without a port. Empty means 127.0.0.1: an example that can be broken by
	// anyone who reaches it has no business on a network. With a port N other than 0 the services take N, N+1, ...
	// in the order of Services; otherwise each takes a free port.
	Addr string
	// Ports gives single services a port of their own, which wins over Addr. 0 picks a free one.
	Ports map[string]int
	// Faults are in force from the start, by service; those with For zero for good. A service may have several, one
	// of each mode and operation.
	Faults map[string][]Fault
	// Log takes notices such as a ledger that was cut. Nil discards them.
	Log *slog.Logger
}

func (c Config) validate() error {
	var faults []error
	if c.Dir == "" {
		faults = append(faults, errors.New("no directory for the ledgers"))
	}
	if _, _, err := c.base(); err != nil {
		faults = append(faults, err)
	}
	for name, port := range c.Ports {
		if err := checkService(name); err != nil {
			faults = append(faults, err)
		}
		if port < 0 || port > 65535 {
			faults = append(faults, fmt.Errorf("port %d of %s is not in 0..65535", port, name))
		}
	}
	for name, list := range c.Faults {
		if err := checkService(name); err != nil {
			faults = append(faults, err)
		}
		for i, f := range list {
			if err := f.validate(); err != nil {
				faults = append(faults, fmt.Errorf("fault of %s: %w", name, err))
			}
			if slices.ContainsFunc(list[:i], func(o Fault) bool { return o.Mode == f.Mode && o.Operation == f.Operation }) {
				faults = append(faults, fmt.Errorf("fault of %s: there are two of mode %s", name, f.Mode))
			}
		}
	}
	return errors.Join(faults...)
}

// address returns where the service with this place in Services listens. The Config must be valid.
func (c Config) address(place int) string {
	host, port, _ := c.base()
	if port != 0 {
		port += place
	}
	if p, ok := c.Ports[Services()[place]]; ok {
		port = p
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// base splits Addr into a loopback host and the first port, 0 for free ones.
func (c Config) base() (host string, port int, err error) {
	host = c.Addr
	if h, p, err := net.SplitHostPort(c.Addr); err == nil {
		host = h
		if port, err = strconv.Atoi(p); err != nil || port < 0 || port+len(Services()) > 65536 {
			return "", 0, fmt.Errorf("address %q: the port is not in 0..%d", c.Addr, 65536-len(Services()))
		}
	}
	if host == "" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return "", 0, fmt.Errorf("address %q is not loopback: the services listen on 127.0.0.1, ::1 or localhost only", c.Addr)
	}
	return strings.Trim(host, "[]"), port, nil
}

func checkService(name string) error {
	if !slices.Contains(Services(), name) {
		return fmt.Errorf("there is no service %q: they are %s", name, strings.Join(Services(), ", "))
	}
	return nil
}
