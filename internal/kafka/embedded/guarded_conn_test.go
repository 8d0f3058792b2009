package embedded_test

import (
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// hostile are beginnings of what reached the broker's port and ended the process, or made it allocate gigabytes.
var hostile = map[string][]byte{
	"an unknown key":       {0, 0, 0, 0x0a, 0x7f, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff},
	"a negative key":       {0, 0, 0, 0x0a, 0xff, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff},
	"an unknown version":   {0, 0, 0, 0x0a, 0, 3, 0x7f, 0xff, 0, 0, 0, 1, 0xff, 0xff},
	"a negative version":   {0, 0, 0, 0x0a, 0, 3, 0xff, 0xff, 0, 0, 0, 1, 0xff, 0xff},
	"four gigabytes":       {0xff, 0xff, 0xff, 0xff, 0, 3, 0, 0, 0, 0, 0, 1},
	"less than a header":   {0, 0, 0, 7, 0, 3, 0, 0, 0, 0, 0, 1},
	"nothing":              {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
	"a page that posts":    []byte("POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1350000000\r\n\r\n"),
	"a page that gets":     []byte("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
	"a handshake by TLS":   {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03},
	"more than the limit":  {0x06, 0x40, 0, 1, 0, 0, 0, 9, 0, 0, 0, 1},
	"a key without a name": {0, 0, 0, 8, 0, 5, 0x11, 0x11, 0, 0, 0, 1},
}

// No bytes from the port end the process: the connection ends, and the broker serves the others.
func TestHostileBytesEndOnlyTheirConnection(t *testing.T) {
	t.Parallel()
	for name, fsync := range map[string]bool{"held in memory": false, "synced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := kafkatest.StartBroker(t, embedded.Config{Dir: t.TempDir(), Fsync: fsync})
			for what, sent := range hostile {
				conn, err := net.Dial("tcp", b.Addr())
				require.NoError(t, err)
				_, err = conn.Write(sent)
				require.NoError(t, err)
				answer, _ := io.ReadAll(conn) // ends with io.EOF, or by a reset because bytes were left unread
				require.Empty(t, answer, what)
				require.NoError(t, conn.Close())
			}
			kafkatest.Connect(t, b)
		})
	}
}

// A claimed length costs nothing: memory grows with what was really sent.
func TestAClaimedLengthAllocatesNothing(t *testing.T) {
	b := kafkatest.StartBroker(t, embedded.Config{Dir: t.TempDir()})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const claims = 8
	for range claims {
		conn, err := net.Dial("tcp", b.Addr())
		require.NoError(t, err)
		_, err = conn.Write([]byte{0x06, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 1}) // 96 MiB
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		_, err = io.ReadAll(conn)
		require.NoError(t, err, "the broker has read what came, and ended the connection")
		require.NoError(t, conn.Close())
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20), "claimed were %d MiB", claims*96)
}

// A client that knows newer versions than the broker learns which ones the broker has, in an answer that it can read.
func TestANewerClientLearnsTheVersions(t *testing.T) {
	t.Parallel()
	b := kafkatest.StartBroker(t, embedded.Config{Dir: t.TempDir()})
	conn, err := net.Dial("tcp", b.Addr())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte{0, 0, 0, 19, 0, 18, 0, 99, 0, 0, 0, 7, 0xff, 0xff, 0, 1, 1, 0, 0, 0, 0, 0, 0})
	require.NoError(t, err)
	head := make([]byte, 10)
	_, err = io.ReadFull(conn, head)
	require.NoError(t, err)
	require.EqualValues(t, 7, binary.BigEndian.Uint32(head[4:]))
	require.EqualValues(t, 35, binary.BigEndian.Uint16(head[8:]), "UNSUPPORTED_VERSION, in version 0")
}

// Records larger than what is passed on in pieces arrive whole.
func TestLargeRequestsPass(t *testing.T) {
	t.Parallel()
	b := kafkatest.StartBroker(t, embedded.Config{Dir: t.TempDir(), ByPort: true})
	cluster := kafkatest.Connect(t, b)
	kafkatest.Create(t, cluster, kafka.TopicSpec{Name: "dlq.big", Partitions: 1, MaxMessageBytes: kafka.DeadMaxMessageBytes})
	producer, err := kafka.NewProducer(cluster)
	require.NoError(t, err)
	defer producer.Close()
	_, err = producer.ProduceSync(kafkatest.Within(t), events.Record{Topic: "dlq.big", Value: make([]byte, 6<<20)})
	require.NoError(t, err)
	end, err := cluster.EndOffset(t.Context(), "dlq.big", 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, end)
}

// Connections beyond the bound are closed, and there is room again when others end.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	b := kafkatest.StartBroker(t, embedded.Config{Dir: t.TempDir()})
	var conns []net.Conn
	for range embedded.MaxConnections {
		conn, err := net.Dial("tcp", b.Addr())
		require.NoError(t, err)
		defer conn.Close()
		conns = append(conns, conn)
	}
	over, err := net.Dial("tcp", b.Addr())
	require.NoError(t, err)
	defer over.Close()
	_, err = io.ReadAll(over)
	require.NoError(t, err, "the broker has closed it")
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	kafkatest.Connect(t, b)
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", b.Addr())
		if err != nil {
			return false
		}
		defer conn.Close()
		_, err = conn.Write([]byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff})
		_, read := io.ReadFull(conn, make([]byte, 4))
		return err == nil && read == nil
	}, kafkatest.StepWait, 20*time.Millisecond)
}
