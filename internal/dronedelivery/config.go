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

// The five services, in the order in which they get their ports.
const (
	Account   = "account"
	Package   = "package"
	Transport = "transport"
	Drone     = "drone"
	Delivery  = "delivery"
)

// Payment is the service of the example of order processing. It runs only if Config.Services names it.
const Payment = "payment"

// Services returns the names of the five services.
func Services() []string { return []string{Account, Package, Transport, Drone, Delivery} }

// EnvName returns the variable from which the agent binding of a service reads its URL, such as PACKAGE_URL.
func EnvName(service string) string { return strings.ToUpper(service) + "_URL" }

// Config says where the services listen, where they keep their ledgers, and which faults they start with.
type Config struct {
	// Dir holds the ledgers. It is created with mode 0700 if it is missing. Required.
	Dir string
	// Addr is a loopback host, with or without a port. Empty means 127.0.0.1: anyone who can reach an example can break it, so
	// it must not be on a network. With a port N other than 0 the services take N, N+1, ... in their order; otherwise
	// each takes a free port.
	Addr string
	// Services are the services to run. Nil means the five of Services.
	Services []string
	// Faults holds the faults that are active from the start, by service. A fault with a zero For has no end. A service may
	// have several, one for each mode and operation.
	Faults map[string][]Fault
	// Unkind makes the services as unkind as real ones may be: see the package documentation. Seed decides by chance which calls
	// they hit.
	Unkind bool
	// KeepKeys makes unkind services remember each key forever. It is for runs in which agents die: such an agent may carry out a
	// do again after its undo.
	KeepKeys bool
	Seed     uint64
	// Log takes notices, for example that a ledger was cut. Nil discards them.
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
	for _, name := range c.Services {
		if name != Payment && !slices.Contains(Services(), name) {
			faults = append(faults, fmt.Errorf("there is no service %q: they are %s and %s", name, strings.Join(Services(), ", "), Payment))
		}
	}
	for name, list := range c.Faults {
		if !slices.Contains(c.services(), name) {
			faults = append(faults, fmt.Errorf("there is no service %q: they are %s", name, strings.Join(c.services(), ", ")))
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

func (c Config) services() []string {
	if c.Services == nil {
		return Services()
	}
	return c.Services
}

// address returns the address of the service at the given index in services. The Config must be valid.
func (c Config) address(place int) string {
	host, port, _ := c.base()
	if port != 0 {
		port += place
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// base splits Addr into a loopback host and the first port, 0 for free ones.
func (c Config) base() (host string, port int, err error) {
	host = c.Addr
	if h, p, err := net.SplitHostPort(c.Addr); err == nil {
		host = h
		if port, err = strconv.Atoi(p); err != nil || port < 0 || port+len(c.services()) > 65536 {
			return "", 0, fmt.Errorf("address %q: the port is not in 0..%d", c.Addr, 65536-len(c.services()))
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
