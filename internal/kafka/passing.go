package kafka

import (
	"context"
	"errors"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
)

// IsPassing reports whether the same question may be answered later: a leader moves, no broker answers at the moment, or fewer brokers
// are alive than a new topic needs for its copies.
func IsPassing(err error) bool {
	if err == nil || errors.Is(err, ErrUnknownTopic) {
		return false
	}
	if errors.Is(err, kerr.InvalidReplicationFactor) {
		return true
	}
	if _, ok := errors.AsType[*TimeoutError](err); ok {
		return true
	}
	if op, ok := errors.AsType[*net.OpError](err); ok { // not net.Error, because disk errors implement it too
		switch op.Op {
		case "dial", "read", "write": // but not a refused certificate ("remote error") or an address in use ("listen")
			return true
		}
		return false
	}
	return retriable(err) && !unknown(err) || errors.Is(err, context.DeadlineExceeded)
}
