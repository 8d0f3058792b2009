package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/access"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/sagalogtest"
	"github.com/sagalog/sagalog/scheduler/client"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const partitions = apitest.Partitions

// log is where submissions arrived, whichever way they took.
type log func() []events.Record

// ways runs a test through Kafka and through HTTP.
func ways(t *testing.T, test func(t *testing.T, c *client.Client, read log)) {
	t.Run("kafka", func(t *testing.T) {
		t.Parallel()
		cluster := kafkatest.StartTCP(t)
		topics := kafka.Topics{Namespace: "sagalog"}
		kafkatest.Create(t, cluster, topics.Base(partitions)...)
		c, err := client.Kafka(t.Context(), cluster.Brokers()...)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		test(t, c, func() []events.Record { return readAll(t, cluster, topics.Submissions()) })
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		e := apitest.New()
		c, err := client.HTTP(e.Serve(t))
		require.NoError(t, err)
		t.Cleanup(c.Close)
		test(t, c, func() []events.Record { return e.Inputs(events.Submissions) })
	})
}

func submission(id string) client.Submission {
	return client.Submission{ID: id, Workflow: "order", Input: json.RawMessage(`{"item":"lamp"}`), Labels: map[string]string{"k": "v"}, Deadline: "10m"}
}

func TestASubmissionIsDurableAtItsHome(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, c *client.Client, read log) {
		r, err := c.Submit(t.Context(), submission("a/b ü"))
		require.NoError(t, err)
		require.Equal(t, "a/b ü", r.ID)
		require.Equal(t, events.Home("a/b ü", partitions), r.Partition)
		require.EqualValues(t, 0, r.Offset)
		in := read()
		require.Len(t, in, 1)
		require.Equal(t, "a/b ü", string(in[0].Key))
		require.Equal(t, r.Partition, in[0].Partition)
		require.JSONEq(t, `{"id":"a/b ü","workflow":"order","input":{"item":"lamp"},"labels":{"k":"v"},"deadline":"10m"}`, string(in[0].Value))
		e, _, err := events.Open(&in[0])
		require.NoError(t, err)
		require.Equal(t, events.TypeSubmission, e.Type)
		require.Equal(t, "a/b ü", e.Subject)

		r, err = c.Submit(t.Context(), client.Submission{Workflow: "order", Input: json.RawMessage(`{"item":"x"}`)})
		require.NoError(t, err)
		require.Len(t, r.ID, 36)
	})
}

func TestASignalIsDurableBehindItsSubmission(t *testing.T) {
	t.Parallel()
	e := sagalogtest.Start(t)
	e.Apply("workflow: hold\nsteps:\n  wait: {wait: {signal: go}}\n")
	k, err := client.Kafka(t.Context(), e.Brokers()...)
	require.NoError(t, err)
	defer k.Close()
	h, err := client.HTTP(e.URL())
	require.NoError(t, err)
	defer h.Close()
	for id, c := range map[string]*client.Client{"k-1": k, "h-1": h} {
		_, err = c.Submit(t.Context(), client.Submission{ID: id, Workflow: "hold"})
		require.NoError(t, err)
		for range 2 { // the second is the same request
			r, err := c.Send(t.Context(), id, client.Signal{RequestID: "s-" + id, Name: "go", Payload: json.RawMessage(`1`)})
			require.NoError(t, err)
			require.Equal(t, id, r.ID)
			require.Equal(t, "s-"+id, r.RequestID)
		}
		task, err := e.Client().Wait(t.Context(), id)
		require.NoError(t, err)
		require.JSONEq(t, `{"signal":"go","payload":1}`, string(task.Step("wait").Output))
		for _, bad := range []client.Signal{{}, {Name: "go", Payload: json.RawMessage(`{`)}} {
			_, err = c.Send(t.Context(), id, bad)
			require.ErrorIs(t, err, client.ErrInvalid)
		}
	}
}

// The engine takes a request, and its answer is lost on the way. The request is made again under its first ID, so the engine carries it out once.
func TestALostAnswerIsAskedForAgain(t *testing.T) {
	t.Parallel()
	e := sagalogtest.Start(t)
	e.Apply("workflow: hold\nsteps:\n  wait: {wait: {signal: go}}\n")
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	var lost, passed atomic.Int32
	front := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			to, _ := url.Parse(e.URL())
			r.SetURL(to)
		},
		ModifyResponse: func(r *http.Response) error {
			if r.Request.Method == http.MethodGet || passed.Add(1)%2 == 0 {
				return nil
			}
			lost.Add(1)
			panic(http.ErrAbortHandler)
		},
	})
	defer front.Close()
	c, err := client.Open(front.URL)
	require.NoError(t, err)
	defer c.Close()
	r, err := c.Submit(t.Context(), client.Submission{ID: "o-1", Workflow: "hold"})
	require.NoError(t, err)
	_, err = c.Accepted(t.Context(), r)
	require.NoError(t, err)
	_, err = c.Cancel(t.Context(), "o-1", client.Request{Reason: "too slow"})
	require.NoError(t, err)
	require.EqualValues(t, 2, lost.Load())
	task, err := c.Wait(t.Context(), "o-1")
	require.NoError(t, err)
	require.Equal(t, client.StateUndone, task.State)
	began := 0
	for f, err := range c.History(t.Context(), "o-1") {
		require.NoError(t, err)
		if f.Type == "CancelRequested" {
			began++
		}
	}
	require.Equal(t, 1, began)
}

// What answers at the URL may be no engine but a proxy, which knows nothing of tasks and roles.
func TestAnswersThatAreNoTaskAreErrors(t *testing.T) {
	t.Parallel()
	for _, answer := range []int{
		http.StatusOK, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge,
		http.StatusTooManyRequests, http.StatusBadGateway,
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "Bearer secret" {
				w.WriteHeader(answer)
			}
			_, _ = w.Write([]byte("<html>"))
		}))
		c, err := client.OpenWith(client.HTTPConfig{URL: s.URL, Token: "secret", RetryFor: -1})
		require.NoError(t, err)
		_, err = c.Get(t.Context(), "o-1")
		require.ErrorIs(t, err, client.ErrUnavailable)
		require.ErrorContains(t, err, "GET "+s.URL+"/v1/tasks/o-1 answered")
		require.ErrorContains(t, err, "of a Sagalog engine")
		_, err = c.Submit(t.Context(), submission("o-1"))
		require.ErrorIs(t, err, client.ErrUnavailable)
		for _, r := range c.SubmitAll(t.Context(), []client.Submission{submission("o-1"), submission("o-2")}) {
			require.ErrorIs(t, r.Err, client.ErrUnavailable)
		}
		c.Close()
		s.Close()
	}
}

// Another service at the URL may answer every call with JSON. An empty list, or a task without an ID, would be taken for the engine's.
func TestJSONOfAnotherServiceIsNoAnswer(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"ok":true}`)) }))
	t.Cleanup(s.Close)
	c, err := client.OpenWith(client.HTTPConfig{URL: s.URL, RetryFor: -1})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	_, got := c.Get(t.Context(), "o-1")
	_, asked := c.Cancel(t.Context(), "o-1", client.Request{})
	_, applied := c.Apply(t.Context(), []byte("workflow: w"))
	_, signalled := c.Send(t.Context(), "o-1", client.Signal{Name: "go"})
	_, submitted := c.Submit(t.Context(), submission("o-1"))
	found := []error{got, asked, applied, signalled, submitted}
	for _, err := range c.List(t.Context(), client.Query{}) {
		found = append(found, err)
	}
	for _, err := range c.History(t.Context(), "o-1") {
		found = append(found, err)
	}
	require.Len(t, found, 7)
	for i, err := range found {
		require.ErrorIs(t, err, client.ErrUnavailable, i)
		require.ErrorContains(t, err, "not of a Sagalog engine", i)
	}
}

func TestATokenMayDoWhatItsRoleMay(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens.json")
	viewer, err := access.Create(file, access.New{Name: "eve", Role: access.Viewer, Now: time.Now()})
	require.NoError(t, err)
	tokens, err := access.OpenTokens(file, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	peers, err := access.NewPeers("test", strings.Repeat("0123456789abcdef", 2))
	require.NoError(t, err)
	at := apitest.New().Serve(t, func(c *api.Config) { c.Access = &access.Gate{Tokens: tokens, Peers: peers} })
	for token, want := range map[string]error{viewer: client.ErrForbidden, "": client.ErrUnauthorized, "x" + viewer: client.ErrUnauthorized} {
		c, err := client.OpenWith(client.HTTPConfig{URL: at, Token: token})
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Cancel(t.Context(), "o-1", client.Request{})
		require.ErrorIs(t, err, want)
		_, err = c.Submit(t.Context(), submission("o-1"))
		require.ErrorIs(t, err, want)
		for _, r := range c.SubmitAll(t.Context(), []client.Submission{submission("o-1"), submission("o-2")}) {
			require.ErrorIs(t, r.Err, want)
		}
	}
}

func TestAnInvalidSubmissionIsNotSent(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, c *client.Client, read log) {
		_, err := c.Submit(t.Context(), client.Submission{ID: "..", Priority: 5000, Deadline: "soon"})
		require.ErrorIs(t, err, client.ErrInvalid)
		var e *client.Error
		require.ErrorAs(t, err, &e)
		var at []string
		for _, p := range e.Places {
			at = append(at, p.Pointer)
		}
		require.ElementsMatch(t, []string{"/id", "/workflow", "/priority", "/deadline"}, at)
		_, err = c.Submit(t.Context(), client.Submission{Workflow: "order", Input: json.RawMessage(`{`)})
		require.ErrorIs(t, err, client.ErrInvalid)
		_, err = c.Submit(t.Context(), client.Submission{Workflow: "order", Input: json.RawMessage(`"` + strings.Repeat("x", 3<<20) + `"`)})
		require.ErrorIs(t, err, client.ErrTooLarge)
		require.Empty(t, read())
	})
}

func TestManyAreSubmittedAtOnce(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, c *client.Client, read log) {
		var list []client.Submission
		for i := range 4500 {
			list = append(list, submission(fmt.Sprint(i)))
		}
		list[7].Workflow = ""
		for i, r := range c.SubmitAll(t.Context(), list) {
			if i == 7 {
				require.ErrorIs(t, r.Err, client.ErrInvalid)
				continue
			}
			require.NoError(t, r.Err)
			require.Equal(t, fmt.Sprint(i), r.ID)
		}
		require.Len(t, read(), 4499)
	})
}

func TestAnEngineRefusesAtOnce(t *testing.T) {
	t.Parallel()
	e := apitest.New()
	c, err := client.HTTP(e.Serve(t))
	require.NoError(t, err)
	defer c.Close()
	first, err := c.Submit(t.Context(), submission("a"))
	require.NoError(t, err)
	require.NotEmpty(t, first.Token)
	again, err := c.Submit(t.Context(), submission("a"))
	require.NoError(t, err)
	require.True(t, again.Known)
	other := submission("a")
	other.Priority = 3
	unknown := submission("b")
	unknown.Workflow = "ordr"
	schema := submission("c")
	schema.Input = json.RawMessage(`{}`)
	large := submission("d")
	large.Input = json.RawMessage(`{"item":"` + strings.Repeat("x", 5000) + `"}`)
	want := []error{client.ErrConflict, client.ErrUnknownWorkflow, client.ErrInvalid, client.ErrTooLarge}
	list := []client.Submission{other, unknown, schema, large}
	for i, s := range list {
		_, err := c.Submit(t.Context(), s)
		require.ErrorIs(t, err, want[i])
	}
	for i, r := range c.SubmitAll(t.Context(), list) {
		require.ErrorIs(t, r.Err, want[i])
	}
	var x *client.Error
	_, err = c.Submit(t.Context(), schema)
	require.ErrorAs(t, err, &x)
	require.Equal(t, []client.Place{{Pointer: "/input/item", Message: "must be a text"}}, x.Places)
}

func TestAnEngineThatRestartsIsWaitedFor(t *testing.T) {
	t.Parallel()
	e := apitest.New()
	at, stop := e.Start(t)
	stop()
	c, err := client.HTTP(at)
	require.NoError(t, err)
	defer c.Close()
	got := make(chan []client.Result)
	go func() {
		got <- c.SubmitAll(context.Background(), []client.Submission{submission("a"), submission("b")})
	}()
	e.SetDown(errors.New("not ready"))
	_, again := e.Start(t, func(cfg *api.Config) { cfg.Addr = strings.TrimPrefix(at, "http://") })
	defer again()
	e.SetDown(nil)
	for _, r := range <-got {
		require.NoError(t, r.Err)
	}
}

func TestAnEngineThatIsDownIsUnavailable(t *testing.T) {
	t.Parallel()
	at, stop := apitest.New().Start(t)
	stop()
	c, err := client.HTTPWith(client.HTTPConfig{URL: at, RetryFor: -1})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Submit(t.Context(), submission("a"))
	require.ErrorIs(t, err, client.ErrUnavailable)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = client.Kafka(ctx, strings.TrimPrefix(at, "http://"))
	require.Error(t, err)
	for _, bad := range []string{"", "localhost", "ftp://x"} {
		_, err := client.HTTP(bad)
		require.Error(t, err)
	}
	_, err = client.Kafka(t.Context())
	require.Error(t, err)
}

func TestAMissingNamespaceIsNamed(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.StartTCP(t)
	_, err := client.KafkaWith(t.Context(), client.KafkaConfig{Brokers: cluster.Brokers(), Namespace: "other"})
	require.ErrorContains(t, err, "namespace other")
}

func TestAClosedClientSaysSo(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.StartTCP(t)
	kafkatest.Create(t, cluster, kafka.Topics{Namespace: "sagalog"}.Base(1)...)
	c, err := client.Kafka(t.Context(), cluster.Brokers()...)
	require.NoError(t, err)
	c.Close()
	_, err = c.Submit(t.Context(), submission("a"))
	require.ErrorIs(t, err, client.ErrClosed)
}

func readAll(t *testing.T, c *kafka.Cluster, topic string) []events.Record {
	t.Helper()
	var all []events.Record
	for p := range int32(partitions) {
		require.NoError(t, c.ReadRange(t.Context(), topic, p, 0, -1, func(r events.Record) error {
			all = append(all, r)
			return nil
		}))
	}
	return all
}

// One line says what a client is connected to, without its secrets.
func TestAClientLogsWhatItIsConnectedTo(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.StartTCP(t)
	kafkatest.Create(t, cluster, kafka.Topics{Namespace: "shop"}.Base(3)...)
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	c, err := client.KafkaWith(t.Context(), client.KafkaConfig{Brokers: cluster.Brokers(), Namespace: "shop", Log: log})
	require.NoError(t, err)
	c.Close()
	require.Regexp(t, `^time=\S+ level=INFO msg="client is connected" brokers=\[127.0.0.1:\d+\] topic=shop.submissions partitions=3 version=\S+\n$`, said.String())
	said.Reset()
	h, err := client.HTTPWith(client.HTTPConfig{URL: "http://ada:secret@127.0.0.1:8642", Token: "hidden", Log: log})
	require.NoError(t, err)
	h.Close()
	require.Regexp(t, `^time=\S+ level=INFO msg="client calls the engine" url=http://ada:xxxxx@127.0.0.1:8642 version=\S+\n$`, said.String())
}
