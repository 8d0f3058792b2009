package sealing_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/sealing"
	"github.com/stretchr/testify/require"
)

const namespaceID = "6f1f2c0e-5a0b-5c8e-9d3e-2a6c7f6f5a11"

const secretInput = `{"patient":"Ada Lovelace","dose":12.50}`

// place is a namespace with its brokers and a key file.
type place struct {
	broker  *embedded.Broker
	cluster *kafka.Cluster
	file    string
	log     bytes.Buffer
}

func newPlace(t *testing.T) *place {
	p := &place{broker: kafkatest.StartBroker(t, embedded.Config{}), file: filepath.Join(t.TempDir(), "seal.key")}
	p.cluster = kafkatest.Connect(t, p.broker)
	p.writeFile(t, sealing.NewKey())
	kafkatest.Create(t, p.cluster, kafka.Topics{Namespace: "ns"}.KeysSpec())
	return p
}

func (p *place) writeFile(t *testing.T, lines ...string) {
	require.NoError(t, os.WriteFile(p.file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
}

func (p *place) lines(t *testing.T) []string {
	b, err := os.ReadFile(p.file)
	require.NoError(t, err)
	return strings.Fields(string(b))
}

func (p *place) open(t *testing.T) *sealing.Keys {
	log := slog.New(slog.NewTextHandler(&p.log, nil))
	file, err := sealing.OpenKeyFile(p.file, log)
	require.NoError(t, err)
	k, err := sealing.Open(t.Context(), p.cluster, "ns", file, log)
	require.NoError(t, err)
	require.NoError(t, k.Bind(t.Context(), namespaceID))
	return k
}

// records returns what the topic of keys holds.
func (p *place) records(t *testing.T) (list []events.Record) {
	require.NoError(t, p.cluster.ReadRange(t.Context(), "ns.keys", 0, 0, -1, func(r events.Record) error {
		list = append(list, r)
		return nil
	}))
	return list
}

func seal(t *testing.T, k *sealing.Keys, subject, value string) []byte {
	sealed, err := k.Seal(t.Context(), subject, []byte(value))
	require.NoError(t, err)
	require.True(t, events.IsSealed(sealed))
	return sealed
}

func opened(t *testing.T, k *sealing.Keys, value []byte) string {
	out, err := k.Open(value)
	require.NoError(t, err)
	return string(out)
}

func TestAnotherProcessOpensWhatOneSealed(t *testing.T) {
	p := newPlace(t)
	one, other := p.open(t), p.open(t) // the other one has read no key yet
	sealed := seal(t, one, "c-17", secretInput)
	require.NotContains(t, string(sealed), "Ada")
	require.Equal(t, secretInput, opened(t, other, sealed))
	within := []byte(`{"signal":"go","payload":` + string(sealed) + `,"again":[` + string(sealed) + `]}`)
	require.Equal(t, `{"signal":"go","payload":`+secretInput+`,"again":[`+secretInput+`]}`, opened(t, other, within))

	like, err := other.SealLike(sealed, []byte(`"an output"`))
	require.NoError(t, err)
	require.True(t, events.IsSealed(like))
	require.Equal(t, `"an output"`, opened(t, one, like))
	require.Len(t, p.records(t), 1, "both sealed with the one key of the subject")
	for _, r := range p.records(t) {
		require.NotContains(t, string(r.Value), p.lines(t)[0])
	}

	clear, err := other.SealLike([]byte(`{"in":"clear"}`), []byte(`1`))
	require.NoError(t, err)
	require.Equal(t, "1", string(clear), "what belongs to a value in clear stays clear")
	require.Equal(t, `{"in":"clear"}`, opened(t, one, []byte(`{"in":"clear"}`)))
}

func TestAnAbsentInputIsSealedToo(t *testing.T) {
	k := newPlace(t).open(t)
	sealed, err := k.SealInput(t.Context(), "", "t-1", nil)
	require.NoError(t, err)
	require.Empty(t, opened(t, k, sealed))
	require.Equal(t, `{"input":null}`, opened(t, k, []byte(`{"input":`+string(sealed)+`}`)))
}

func TestARepeatedSubmissionIsKnownWithoutItsKey(t *testing.T) {
	p := newPlace(t)
	k := p.open(t)
	content := func(task, input string) string {
		sealed, err := k.SealInput(t.Context(), "c-17", task, []byte(input))
		require.NoError(t, err)
		hash, err := (&events.Submission{ID: task, Workflow: "w", Input: sealed}).ContentHash()
		require.NoError(t, err)
		return hash
	}
	first := content("t-1", `{"a":1,"b":2}`)
	_, err := k.Rotate(t.Context(), "c-17")
	require.NoError(t, err)
	require.Equal(t, first, content("t-1", `{"b":2,"a":1}`), "the same content, sealed with another key")
	require.NotEqual(t, first, content("t-1", `{"a":1,"b":3}`))
	one, err := k.SealInput(t.Context(), "c-17", "t-1", []byte(`1`))
	require.NoError(t, err)
	two, err := k.SealInput(t.Context(), "c-17", "t-2", []byte(`1`))
	require.NoError(t, err)
	a, _ := events.ParseSealed(one)
	b, _ := events.ParseSealed(two)
	require.NotEqual(t, a.Same, b.Same, "equal inputs of two tasks look different")
}

func TestAnErasedSubjectOpensNowhere(t *testing.T) {
	p := newPlace(t)
	one, other := p.open(t), p.open(t)
	sealed, kept := seal(t, one, "c-17", secretInput), seal(t, one, "c-18", secretInput)
	require.Equal(t, secretInput, opened(t, other, sealed))
	_, err := one.Rotate(t.Context(), "c-17")
	require.NoError(t, err)
	later := seal(t, one, "c-17", secretInput)

	eraser := sealing.NewTopic(p.cluster, "ns", slog.New(slog.DiscardHandler)) // needs no key file
	n, err := eraser.Erase(t.Context(), "c-17", events.At(time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	n, err = eraser.Erase(t.Context(), "c-17", events.At(time.Now()))
	require.NoError(t, err)
	require.Zero(t, n, "erasing again changes nothing")

	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- other.Run(ctx) }()
	require.Eventually(t, func() bool {
		_, err := other.Open(sealed)
		return err != nil
	}, time.Minute, 10*time.Millisecond)
	stop()
	require.NoError(t, <-done)
	for _, value := range [][]byte{sealed, later} {
		_, err = p.open(t).Open(value)
		var erased *events.ErasedError
		require.ErrorAs(t, err, &erased)
		require.EqualError(t, err, "the content was erased on 2026-11-28")
		like, err := other.SealLike(value, []byte(`1`))
		require.NoError(t, err)
		require.JSONEq(t, `{"$erased":"2026-11-28"}`, string(like))
	}
	require.Equal(t, secretInput, opened(t, p.open(t), kept))
	require.Equal(t, secretInput, opened(t, p.open(t), seal(t, p.open(t), "c-17", secretInput)), "the subject may come again")
	last := map[string][]byte{}
	for _, r := range p.records(t) {
		last[string(r.Key)] = r.Value
	}
	for _, d := range eraser.List() {
		if d.Erased != 0 {
			value, there := last["key/"+d.ID]
			require.True(t, there)
			require.Nil(t, value, "what compaction leaves of an erased key is nothing")
		}
	}
	require.NotContains(t, p.log.String(), "Ada")
}

func TestAKeyWrappedAgainWhileItIsErasedStaysErased(t *testing.T) {
	p := newPlace(t)
	k := p.open(t)
	sealed := seal(t, k, "c-17", secretInput)
	alive := p.records(t)[0]
	eraser := sealing.NewTopic(p.cluster, "ns", slog.New(slog.DiscardHandler))
	_, err := eraser.Erase(t.Context(), "c-17", events.At(time.Now()))
	require.NoError(t, err)
	producer, err := kafka.NewProducer(p.cluster)
	require.NoError(t, err)
	defer producer.Close()
	_, err = producer.ProduceSync(t.Context(), events.Record{Topic: "ns.keys", Key: alive.Key, Value: alive.Value})
	require.NoError(t, err)
	_, err = p.open(t).Open(sealed)
	require.ErrorContains(t, err, "was erased on")

	p.writeFile(t, sealing.NewKey(), p.lines(t)[0])
	_, err = p.open(t).Rewrap(t.Context())
	require.NoError(t, err)
	records := p.records(t)
	require.Equal(t, alive.Key, records[len(records)-1].Key)
	require.Nil(t, records[len(records)-1].Value, "the next one who manages the keys deletes it again")
}

func TestTheKeyFileIsReplaced(t *testing.T) {
	p := newPlace(t)
	k := p.open(t)
	sealed := seal(t, k, "c-17", secretInput)
	old := p.lines(t)[0]
	p.writeFile(t, sealing.NewKey(), old)
	other := p.open(t)
	n, err := other.Rewrap(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	n, err = other.Rewrap(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	p.writeFile(t, p.lines(t)[0])
	require.Equal(t, secretInput, opened(t, p.open(t), sealed), "the old key is not needed any more")

	late := seal(t, p.open(t), "c-18", secretInput)
	require.Equal(t, secretInput, opened(t, k, late), "a running process reads the file again")
	p.writeFile(t, old, p.lines(t)[0])
	seal(t, p.open(t), "c-19", secretInput) // with the old key, so that a file of it alone is accepted
	p.writeFile(t, old)
	_, err = p.open(t).Open(sealed)
	var lacking *events.NoKeyError
	require.ErrorAs(t, err, &lacking, "it may be opened elsewhere, or later")
	require.NotEmpty(t, lacking.Missing)
	require.ErrorContains(t, err, "seal.key does not hold the key")
	require.NotContains(t, err.Error(), old)
}

func TestWhatCannotBeOpenedSaysWhy(t *testing.T) {
	p := newPlace(t)
	k := p.open(t)
	sealed, _ := events.ParseSealed(seal(t, k, "c-17", secretInput))
	unknown, damaged := sealed, sealed
	unknown.Key = "0000000000000000"
	damaged.Text = append(bytes.Clone(sealed.Text[:len(sealed.Text)-1]), sealed.Text[len(sealed.Text)-1]^1)
	_, err := k.Open(unknown.Value())
	require.ErrorContains(t, err, "there is no data key 0000000000000000 in this namespace")
	_, err = k.Open(damaged.Value())
	require.ErrorContains(t, err, "it is damaged")
	_, err = k.Open([]byte(`{"$sealed":"nonsense"}`))
	require.ErrorContains(t, err, "not in the form")
}

func TestAKeyFileThatOthersCanReadIsRefused(t *testing.T) {
	p := newPlace(t)
	require.NoError(t, os.Chmod(p.file, 0o644))
	_, err := sealing.OpenKeyFile(p.file, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "chmod 600")
	require.NoError(t, os.Chmod(p.file, 0o600))
	p.writeFile(t, "not a key of 64 digits")
	_, err = sealing.OpenKeyFile(p.file, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "sagalog key create")
	require.NotContains(t, err.Error(), "not a key of 64 digits")
}

// A value may have sealed values in it, or something that looks like one. The rest of it is sealed all the same, and what is sealed in it is
// opened with the whole.
func TestAValueWithSealedPartsIsSealedAsAWhole(t *testing.T) {
	t.Parallel()
	k := newPlace(t).open(t)
	input := seal(t, k, "c-17", secretInput)
	for value, want := range map[string]string{
		`{"ssn":"123","note":{"$sealed":"a.b.c"}}`: `{"ssn":"123","note":{"$sealed":"a.b.c"}}`,
		`{"ssn":"123","in":` + string(input) + `}`: `{"ssn":"123","in":` + secretInput + `}`,
	} {
		sealed, err := k.SealLike(input, []byte(value))
		require.NoError(t, err)
		require.True(t, events.IsSealed(sealed))
		require.NotContains(t, string(sealed), "123")
		require.Equal(t, want, opened(t, k, sealed))
	}
	again, err := k.SealLike(input, input)
	require.NoError(t, err)
	require.Equal(t, string(input), string(again))
}

// While a new line of the key file is not everywhere yet, a process without it seals with the key that it can unwrap.
func TestAProcessWithAnOlderKeyFileSeals(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	input := seal(t, p.open(t), "c-17", secretInput)
	older := &place{cluster: p.cluster, file: filepath.Join(t.TempDir(), "seal.key")}
	older.writeFile(t, p.lines(t)...)
	p.writeFile(t, append([]string{sealing.NewKey()}, p.lines(t)...)...)
	newer := p.open(t)
	_, err := newer.Rotate(t.Context(), "c-17")
	require.NoError(t, err)
	output, err := older.open(t).SealLike(input, []byte(`"an output"`))
	require.NoError(t, err)
	require.True(t, events.IsSealed(output))
	require.Equal(t, `"an output"`, opened(t, newer, output))
}

// A key file that holds none of the keys in use is refused; one that lacks some of them is being replaced.
func TestAKeyFileOfAnotherNamespaceIsRefused(t *testing.T) {
	p := newPlace(t)
	seal(t, p.open(t), "c-17", secretInput)
	right := p.lines(t)[0]
	open := func(lines ...string) error {
		p.writeFile(t, lines...)
		log := slog.New(slog.NewTextHandler(&p.log, nil))
		file, err := sealing.OpenKeyFile(p.file, log)
		require.NoError(t, err)
		_, err = sealing.Open(t.Context(), p.cluster, "ns", file, log)
		return err
	}
	other := sealing.NewKey()
	require.ErrorContains(t, open(other), p.file+" does not hold the key that wraps the data keys of namespace ns")
	require.NoError(t, open(other, right))
	seal(t, p.open(t), "c-18", secretInput)
	require.NotContains(t, p.log.String(), "lacks keys")
	require.NoError(t, open(right))
	require.Contains(t, p.log.String(), "lacks keys")
}

// A key of another namespace, whoever wrote it there, neither opens nor seals. A process that does not know the ID takes that of the first key.
func TestAKeyOfAnotherNamespaceIsPassedOver(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	k := p.guarded(t, &mark{})
	own := seal(t, p.open(t), "c-17", secretInput)
	require.NoError(t, k.Bind(t.Context(), "6f1f2c0e-5a0b-5c8e-9d3e-2a6c7f6f5a12"))
	_, err := k.Open(own)
	require.ErrorContains(t, err, "there is no data key")
	foreign := seal(t, k, "c-17", secretInput)
	require.Len(t, p.records(t), 2)
	require.Contains(t, p.log.String(), "is of the namespace with the ID "+namespaceID)

	file, err := sealing.OpenKeyFile(p.file, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	agent, err := sealing.Open(t.Context(), p.cluster, "ns", file, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Equal(t, secretInput, opened(t, agent, own))
	_, err = agent.Open(foreign)
	require.ErrorContains(t, err, "there is no data key")
}

// A topic of keys that is gone is not an empty one. When it is made again, or restored with fewer records, what was read before stays. What only another
// process had read waits, because it may come back.
func TestATopicOfKeysThatIsGoneIsNoEmptyOne(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	k, other := p.open(t), p.open(t)
	kept, lost := seal(t, k, "c-17", secretInput), seal(t, k, "c-18", secretInput)
	require.NoError(t, other.Topic().Read(t.Context()))
	unread := seal(t, k, "c-19", secretInput)
	records := p.records(t)
	kafkatest.DeleteTopic(t, p.broker, "ns.keys")
	require.ErrorContains(t, k.Topic().Read(t.Context()), "is gone: restore it")
	require.Equal(t, secretInput, opened(t, k, lost), "what was read stays")
	_, err := k.Seal(t.Context(), "c-20", []byte(`1`))
	require.ErrorContains(t, err, "is gone: restore it")

	kafkatest.Create(t, p.cluster, kafka.Topics{Namespace: "ns"}.KeysSpec())
	producer, err := kafka.NewProducer(p.cluster)
	require.NoError(t, err)
	defer producer.Close()
	_, err = producer.ProduceSync(t.Context(), events.Record{Topic: "ns.keys", Key: records[0].Key, Value: records[0].Value})
	require.NoError(t, err)
	require.NoError(t, k.Topic().Read(t.Context()))
	require.Equal(t, secretInput, opened(t, k, kept))
	require.Equal(t, secretInput, opened(t, k, lost))
	require.Contains(t, p.log.String(), "ends before what was read of it")

	require.Equal(t, secretInput, opened(t, other, lost))
	_, err = other.Open(unread)
	waits(t, err, "has lost records")
	_, err = p.open(t).Open(unread)
	require.ErrorIs(t, err, sealing.ErrNoKey, "a process that starts now does not know that something is missing")
}

// waits requires that nothing final is decided because of an error.
func waits(t *testing.T, err error, why string) {
	t.Helper()
	var passes *events.NoKeyError
	require.ErrorAs(t, err, &passes)
	require.ErrorContains(t, err, why)
}
