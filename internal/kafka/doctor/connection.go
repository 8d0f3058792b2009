package doctor

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// conn is a bare connection to one broker. If a broker hangs up, the client reports "EOF" after retries; an operator must know at which step
// it did.
type conn struct {
	conn   net.Conn
	format *kmsg.RequestFormatter
	asked  int32
}

// errNotKafka is returned for a response that no Kafka broker sends.
var errNotKafka = errors.New("this is not the response of a Kafka broker")

// maxAnswer is far above the size of the responses that we expect, and far below the length that the first bytes of any text
// would stand for.
const maxAnswer = 1 << 20

func newConn(c net.Conn, clientID string) *conn {
	return &conn{conn: c, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))}
}

// ask sends a request and waits for the response. The version must be one whose response has the old header.
func (c *conn) ask(ctx context.Context, req kmsg.Request, version int16) (kmsg.Response, error) {
	deadline, _ := ctx.Deadline() // the zero time is no deadline
	if err := c.conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Now()) })()
	req.SetVersion(version)
	c.asked++
	if _, err := c.conn.Write(c.format.AppendRequest(nil, req, c.asked)); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(c.conn, head[:]); err != nil {
		return nil, err
	}
	size, id := binary.BigEndian.Uint32(head[:4]), binary.BigEndian.Uint32(head[4:])
	if size < 4 || size > maxAnswer || id != uint32(c.asked) {
		return nil, errNotKafka
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(c.conn, body); err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	resp.SetVersion(version)
	if err := resp.ReadFrom(body); err != nil {
		return nil, errors.Join(errNotKafka, err)
	}
	return resp, nil
}

func (c *conn) close() { _ = c.conn.Close() }
