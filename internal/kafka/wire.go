package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wire is a bare connection to one broker. The client tells of a broker that hung up as "EOF", after retries; who has to
// mend it must know at which step it hung up.
type wire struct {
	conn   net.Conn
	format *kmsg.RequestFormatter
	asked  int32
}

// errNotKafka is returned for an answer that no Kafka broker gives.
var errNotKafka = errors.New("the answer is none of Kafka's")

// maxAnswer is far above the answers to what we ask on a wire, and far below what text read as a length would be.
const maxAnswer = 1 << 20

func newWire(conn net.Conn, clientID string) *wire {
	return &wire{conn: conn, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))}
}

// ask sends a request and waits for its answer. The version must be one whose answer has the old header.
func (w *wire) ask(ctx context.Context, req kmsg.Request, version int16) (kmsg.Response, error) {
	deadline, _ := ctx.Deadline() // the zero time means none
	if err := w.conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = w.conn.SetDeadline(time.Now()) })()
	req.SetVersion(version)
	w.asked++
	if _, err := w.conn.Write(w.format.AppendRequest(nil, req, w.asked)); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(w.conn, head[:]); err != nil {
		return nil, err
	}
	size, id := binary.BigEndian.Uint32(head[:4]), binary.BigEndian.Uint32(head[4:])
	if size < 4 || size > maxAnswer || id != uint32(w.asked) {
		return nil, errNotKafka
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(w.conn, body); err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	resp.SetVersion(version)
	if err := resp.ReadFrom(body); err != nil {
		return nil, errors.Join(errNotKafka, err)
	}
	return resp, nil
}

func (w *wire) close() { _ = w.conn.Close() }
