package sealing

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/jsontext"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/pause"
	"github.com/tink-crypto/tink-go/v2/aead/subtle"
)

const (
	// readEvery is how often the topic is read: an erasure takes effect within that time.
	readEvery = time.Second
	// askWithin bounds how long somebody who meets an unknown key waits for the topic.
	askWithin = 2 * time.Second
	// failingFor is how long after reading failed nobody waits for it: Run tries again meanwhile.
	failingFor = askWithin + 2*readEvery
	// openWithin is how long after the last read of the topic values are opened. Their keys may have been erased since.
	openWithin = time.Minute
	// MaxSubject bounds the name of a subject, in bytes: it is the value of a label.
	MaxSubject = events.MaxLabelValue
)

// ErrNoKey is wrapped in the error of a value that no process will ever open, because no key of the namespace opens it. A fault that may pass is an
// *events.NoKeyError.
var ErrNoKey = errors.New("the content is sealed, and no key opens it")

// Keys seal and open values. They are safe for concurrent use.
type Keys struct {
	topic *Topic
	file  *KeyFile
	now   func() time.Time

	// making is held while data keys are made, so that one process makes one for each subject.
	making chan struct{}
	// readAt is when the topic was last read, and failedAt when reading last failed, zero if it has not since. While it fails, nobody waits for
	// it. Guarded by topic.mu.
	readAt, failedAt time.Time
	// unknown are IDs that the topic did not have. Whoever seals has seen the key there, so it will not come later. Guarded by topic.mu.
	unknown map[string]bool
	// mark is nil in a process that only reads the topic.
	mark Mark
}

// mostUnknown bounds the unknown IDs that are remembered, so that nobody makes each reader ask the brokers all the time.
const mostUnknown = 1000

// Open reads the keys of a namespace, and refuses a key file that opens none of them. The caller runs Run.
func Open(ctx context.Context, c *kafka.Cluster, namespace string, file *KeyFile, log *slog.Logger) (*Keys, error) {
	k := &Keys{topic: NewTopic(c, namespace, log), file: file, now: time.Now, making: make(chan struct{}, 1)}
	k.readAt = k.now()
	if err := k.topic.Read(ctx); err != nil {
		return nil, err
	}
	return k, k.checkFile(log)
}

// Bind says to which namespace the keys belong: see Topic.Bind. It must be called before new subjects are sealed for.
func (k *Keys) Bind(ctx context.Context, id string) error { return k.topic.Bind(ctx, id) }

// Create makes the topic of keys if it is missing. New subjects cannot be sealed for without it.
func (k *Keys) Create(ctx context.Context) error { return k.topic.Create(ctx) }

// Run follows the topic until ctx ends.
func (k *Keys) Run(ctx context.Context) error {
	defer k.topic.Close()
	refused := false
	for pause.For(ctx, readEvery) {
		lacked := k.topic.lacks()
		if !k.read(ctx) || !lacked || k.mark == nil { // a broker may answer once with an end that is too low
			continue
		}
		err := k.topic.giveBack(ctx)
		if err != nil && !refused {
			k.topic.log.Error("the topic of keys has lost records, and they cannot be written into it again: do not stop this process before they are", "topic", k.topic.name, "error", err)
		}
		refused = err != nil
	}
	return nil
}

// read reads the topic, and returns false if that failed.
func (k *Keys) read(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	at := k.now()
	err := k.topic.Read(ctx)
	k.topic.mu.Lock()
	defer k.topic.mu.Unlock()
	failed := !k.failedAt.IsZero()
	if err != nil {
		k.failedAt = k.now()
		if !failed {
			k.topic.log.Warn("the topic of keys cannot be read: this process does not notice erasures, and soon opens no sealed content; check the leader of the topic, and the permissions of this process", "topic", k.topic.name, "after", openWithin, "error", err)
		}
		return false
	}
	k.readAt, k.failedAt = at, time.Time{}
	if failed {
		k.topic.log.Info("the topic of keys can be read again", "topic", k.topic.name)
	}
	return true
}

// ReadAge returns how long ago the topic was last read. This process does not know of later erasures.
func (k *Keys) ReadAge() time.Duration {
	k.topic.mu.Lock()
	defer k.topic.mu.Unlock()
	return max(k.now().Sub(k.readAt), 0)
}

// Collector returns the metric of ReadAge.
func (k *Keys) Collector() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sagalog_keys_read_age_seconds", Help: "How long ago this process last read the topic of keys. Erasures since then are not known to it.",
	}, func() float64 { return k.ReadAge().Seconds() })
}

// Stale returns an error if the topic was not read for so long that nothing sealed is opened.
func (k *Keys) Stale() error {
	if age := k.ReadAge(); age > openWithin {
		return fmt.Errorf("the topic %s could not be read for %s, so nothing sealed is opened: check its leader, and the permissions of this process", k.topic.name, age.Round(time.Second))
	}
	return nil
}

// openedKey is what a data key is used for.
type openedKey struct {
	aead *subtle.AESGCM
	// bound is the associated data of the values.
	bound []byte
	// same is the key of the hash by which equal inputs are recognised.
	same []byte
}

// find returns a data key. It reads the topic if the key is unknown.
func (k *Keys) find(id string) (*openedKey, error) {
	o, err := k.known(id)
	if !errors.Is(err, errUnknown) {
		return o, err
	}
	k.topic.mu.Lock()
	missing := k.unknown[id]
	k.topic.mu.Unlock()
	if !missing {
		if k.failing() || !k.read(context.Background()) {
			return nil, &events.NoKeyError{Reason: "the topic of keys cannot be read"}
		}
		if o, err = k.known(id); !errors.Is(err, errUnknown) {
			return o, err
		}
		k.miss(id)
	}
	return nil, k.absent(id)
}

func (k *Keys) failing() bool {
	k.topic.mu.Lock()
	defer k.topic.mu.Unlock()
	return !k.failedAt.IsZero() && k.now().Sub(k.failedAt) < failingFor
}

func (k *Keys) miss(id string) {
	k.topic.mu.Lock()
	defer k.topic.mu.Unlock()
	if k.unknown == nil || len(k.unknown) >= mostUnknown {
		k.unknown = map[string]bool{}
	}
	k.unknown[id] = true
}

var (
	errUnknown         = errors.New("unknown data key")
	errErasedMeanwhile = errors.New("the keys of the subject were erased meanwhile")
)

func (k *Keys) known(id string) (*openedKey, error) {
	k.topic.mu.Lock()
	defer k.topic.mu.Unlock()
	if e, erased := k.topic.ring.erased[id]; erased {
		return nil, &events.ErasedError{At: e.Erased}
	}
	d := k.topic.ring.all[id]
	if d == nil {
		return nil, errUnknown
	}
	return k.open(d)
}

// open unwraps a data key, unless that was done before. The topic's mu is held.
func (k *Keys) open(d *dataKey) (*openedKey, error) {
	if d.opened != nil {
		k.topic.ring.used(d)
		return d.opened, nil
	}
	raw, err := k.unwrap(d)
	if err != nil {
		return nil, err
	}
	aead, err := subtle.NewAESGCM(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: its data key %s has the wrong length", ErrNoKey, d.id)
	}
	d.opened = &openedKey{aead, []byte("sagalog value 1\x00" + d.Namespace + "\x00" + d.id), mac(raw, "sagalog same 1")}
	k.topic.ring.used(d)
	return d.opened, nil
}

func (k *Keys) unwrap(d *dataKey) ([]byte, error) {
	w := k.file.Now().find(d.With)
	if w == nil {
		w = k.file.Fresh().find(d.With)
	}
	if w == nil {
		return nil, &events.NoKeyError{Missing: d.With, Reason: fmt.Sprintf("%s does not hold the key %s, which wraps its data key", k.file.path, d.With)}
	}
	raw, err := w.Decrypt(d.Wrapped, d.wrapBound())
	if err != nil {
		return nil, fmt.Errorf("%w: its data key %s is damaged, or from another namespace", ErrNoKey, d.id)
	}
	return raw, nil
}

// wrapBound is what a wrapped key is bound to: it opens in no other place.
func (d *dataKey) wrapBound() []byte {
	return []byte("sagalog key 1\x00" + d.Namespace + "\x00" + d.id + "\x00" + d.Subject)
}

func mac(key []byte, parts ...string) []byte {
	m := hmac.New(sha256.New, key)
	for _, p := range parts {
		m.Write([]byte(p))
		m.Write([]byte{0})
	}
	return m.Sum(nil)
}

// Open returns a value with all sealed values in it opened; the value itself if none is. A value that was sealed as a whole and is empty
// was absent.
func (k *Keys) Open(value []byte) ([]byte, error) {
	return k.openWith(func(id string) (*openedKey, error) {
		if k.ReadAge() > openWithin && (k.failing() || !k.read(context.Background())) {
			return nil, &events.NoKeyError{Reason: "the topic of keys cannot be read, so the content may have been erased"}
		}
		return k.find(id)
	}, value)
}

func (k *Keys) openWith(find func(id string) (*openedKey, error), value []byte) ([]byte, error) {
	var out []byte
	for rest := value; ; {
		from, to := events.FindSealed(rest)
		if from < 0 || to < 0 {
			if out == nil {
				return value, nil
			}
			return append(out, rest...), nil
		}
		opened, err := k.openOne(find, rest[from:to])
		if err != nil {
			return nil, err
		}
		if len(opened) == 0 && (from > 0 || to < len(rest)) {
			opened = []byte("null")
		}
		out = append(append(out, rest[:from]...), opened...)
		if rest = rest[to:]; len(rest) == 0 {
			return out, nil
		}
	}
}

func (k *Keys) openOne(find func(id string) (*openedKey, error), value []byte) ([]byte, error) {
	s, ok := events.ParseSealed(value)
	if !ok {
		return nil, fmt.Errorf("%w: it is not in the form of a sealed value", ErrNoKey)
	}
	o, err := find(s.Key)
	if err != nil {
		return nil, err
	}
	opened, err := o.aead.Decrypt(s.Text, o.bound)
	if err != nil {
		return nil, fmt.Errorf("%w: it is damaged, or from another namespace", ErrNoKey)
	}
	return opened, nil
}

// SealInput seals the input of a submission for a subject, and makes the subject's first data key if it has none.
func (k *Keys) SealInput(ctx context.Context, subject, task string, input []byte) ([]byte, error) {
	if err := k.ready(ctx, subject); err != nil {
		return nil, err
	}
	canonical := ""
	if len(input) > 0 {
		v, err := events.DecodeValue(input)
		if err != nil {
			return nil, err
		}
		text, err := jsontext.Marshal(v)
		if err != nil {
			return nil, err
		}
		canonical = string(text)
	}
	k.topic.mu.Lock()
	defer k.topic.mu.Unlock()
	first := k.topic.ring.first(subject)
	if first == nil {
		return nil, errErasedMeanwhile
	}
	o, err := k.open(first)
	if err != nil {
		return nil, err
	}
	return k.seal(subject, base64.RawURLEncoding.EncodeToString(mac(o.same, task, canonical)[:16]), input)
}

// Seal seals a value for a subject, and makes the subject's first data key if it has none.
func (k *Keys) Seal(ctx context.Context, subject string, value []byte) ([]byte, error) {
	if err := k.ready(ctx, subject); err != nil {
		return nil, err
	}
	k.topic.mu.Lock()
	defer k.topic.mu.Unlock()
	return k.seal(subject, "", value)
}

// SealLike seals a value for the subject of a value that is sealed as a whole. It returns the value as it is if it is sealed for that subject already, or
// if the other one is not sealed; and if the key of the other one was erased, what is shown in the place of an erased value.
func (k *Keys) SealLike(like, value []byte) ([]byte, error) {
	s, ok := events.ParseSealed(like)
	if !ok || k.sealedLike(s.Key, value) {
		return value, nil
	}
	o, err := k.find(s.Key)
	if e, erased := errors.AsType[*events.ErasedError](err); erased {
		return e.Value(), nil // what would be erased at once
	}
	if err != nil {
		return nil, err
	}
	if opened, err := k.openWith(k.known, value); err == nil {
		value = opened // sealed values in it would not be opened with the whole
	}
	k.topic.mu.Lock()
	defer k.topic.mu.Unlock()
	if e, erased := k.topic.ring.erased[s.Key]; erased { // since it was found
		return (&events.ErasedError{At: e.Erased}).Value(), nil
	}
	d := k.topic.ring.all[s.Key]
	if d == nil { // Bind forgot it since it was found
		return nil, fmt.Errorf("%w: its data key is gone", ErrNoKey)
	}
	sealed, err := k.seal(d.Subject, "", value)
	if err != nil { // the key file of this process may not have what wraps the latest key yet
		return k.sealWith(s.Key, o, "", value)
	}
	return sealed, nil
}

// sealedLike says whether a value is sealed for the subject of a data key already. One that cannot be opened stays as it is, too.
func (k *Keys) sealedLike(id string, value []byte) bool {
	s, sealed := events.ParseSealed(value)
	if !sealed || s.Key == id {
		return sealed
	}
	if _, err := k.find(s.Key); err != nil {
		return true
	}
	k.topic.mu.Lock()
	defer k.topic.mu.Unlock()
	own, of := k.topic.ring.all[s.Key], k.topic.ring.all[id]
	return own == nil || of == nil || own.Subject == of.Subject
}

// seal seals with the latest key of a subject. The topic's mu is held.
func (k *Keys) seal(subject, same string, value []byte) ([]byte, error) {
	d := k.topic.ring.last(subject)
	if d == nil {
		return nil, errErasedMeanwhile
	}
	o, err := k.open(d)
	if err != nil {
		return nil, err
	}
	return k.sealWith(d.id, o, same, value)
}

func (k *Keys) sealWith(id string, o *openedKey, same string, value []byte) ([]byte, error) {
	text, err := o.aead.Encrypt(value, o.bound)
	if err != nil {
		return nil, err
	}
	return (&events.Sealed{Key: id, Same: same, Text: text}).Value(), nil
}

// wrap returns the record of a data key, wrapped with the first key of the file.
func (k *Keys) wrap(d *dataKey, raw []byte) (events.Record, error) {
	w := k.file.Fresh()[0]
	wrapped, err := w.aead.Encrypt(raw, d.wrapBound())
	if err != nil {
		return events.Record{}, err
	}
	value, err := events.Marshal(keyRecord{d.Namespace, d.Subject, d.Made, w.name, wrapped})
	return events.Record{Key: []byte(keyPrefix + d.id), Value: value}, err
}
