package kafka

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// DeniedError is returned if the access lists of the cluster do not permit an operation.
type DeniedError struct {
	// Operation has Kafka's name, such as WRITE. On says what it was on, such as "topic sagalog.reports".
	Operation, On string
	// Principal is who may not do it, as far as we know.
	Principal string
	// Remedy is the command that prints what the role of this process needs.
	Remedy string
	Err    error
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("%s may not %s on the %s (%s): `%s` prints all that it needs", e.Principal, e.Operation, e.On, e.Err, e.Remedy)
}

func (e *DeniedError) Unwrap() error { return e.Err }

// denied gives the refusal of an operation its type, and returns any other error unchanged. topic and group are what the operation was on, as far
// as the error is about them.
func denied(c *Cluster, err error, operation, topic, group string) error {
	if _, named := errors.AsType[*DeniedError](err); named {
		return err
	}
	e := &DeniedError{Operation: operation, Principal: c.cfg.Principal(), Remedy: c.cfg.Grants(), Err: err}
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		e.On = "topic " + topic
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		e.On = "group " + group
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		e.On = "cluster"
		if operation == opWrite { // whoever may write to no topic; with brokers before Apache Kafka 3.0, to any topic
			e.On = "topic " + topic + ", nor IDEMPOTENT_WRITE on the cluster"
		}
	default:
		return err
	}
	return e
}

// The operations that a cluster may deny, with Kafka's names.
const (
	opRead     = "READ"
	opWrite    = "WRITE"
	opDelete   = "DELETE"
	opDescribe = "DESCRIBE"
)

// Grants is the command that prints the permissions that this process needs.
func (c *ClusterConfig) Grants() string {
	text := "sagalog generate acls --role " + cmp.Or(c.Role, "ROLE")
	if c.Principal() != anonymous {
		text += " --principal '" + c.Principal() + "'"
	}
	return text
}

// anonymous is whom brokers see if nobody authenticates.
const anonymous = "User:ANONYMOUS"

// Principal is whom the brokers see, unless they rewrite the names of certificates.
func (c *ClusterConfig) Principal() string {
	switch {
	case c.SASL != nil:
		return "User:" + c.SASL.User
	case c.TLS != nil && len(c.TLS.Certificates) > 0 && c.TLS.Certificates[0].Leaf != nil:
		return "User:" + c.TLS.Certificates[0].Leaf.Subject.String()
	}
	return anonymous
}
