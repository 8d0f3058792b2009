package sealing

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

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
	// MaxSubject bounds the name of a subject, in bytes: it is the value of a label.
	MaxSubject = events.MaxLabelValue
)

// ErrNoKey is wrapped in the error of a value that cannot be opened here now, but perhaps elsewhere or later.
var ErrNoKey = errors.New("the content is sealed, and this process cannot open it")

// Keys seal and open values. They are safe for concurrent use.
type Keys struct {
	topic *Topic
	file  *KeyFile
	now   func() time.Time

	// making is held while a data key is made, so that one process makes one.
	making sync.Mutex
	// failedAt is when reading last failed. While it fails, nobody waits for it. Guarded by topic.mu.
	failedAt time.Time
	// unknown are IDs that the topic did not have. Whoever seals has seen the key there, so it will not come later. Guarded by topic.mu.
	unknown map[string]bool
}

// mostUnknown bounds the unknown IDs that are remembered, so that nobody makes each reader ask the brokers all the time.
const mostUnknown = 1000

// Open reads the keys of a namespace. The caller runs Run.
func Open(ctx context.Context, c *kafka.Cluster, namespace string, file *KeyFile, log *slog.Logger) (*Keys, error) {
	k := &Keys{topic: NewTopic(c, namespace, log), file: file, now: time.Now}
	return k, k.topic.Read(ctx)
}

// Bind says which namespace the keys are of: see Topic.Bind. Who seals for new subjects needs it.
func (k *Keys) Bind(ctx context.Context, id string) error { return k.topic.Bind(ctx, id) }

// Create makes the topic of keys if it is missing: who seals for new subjects needs it.
func (k *Keys) Create(ctx context.Context) error { return k.topic.Create(ctx) }

// Run follows the topic until ctx ends.
func (k *Keys) Run(ctx context.Context) error {
	for pause.For(ctx, readEvery) {
		k.read(ctx)
	}
	return nil
}

// read reads the topic, and returns false if that failed.
func (k *Keys) read(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	err := k.topic.Read(ctx)
	k.topic.mu.Lock()
	defer k.topic.mu.Unlock()
	if err != nil {
		k.failedAt = k.now()
		return false
	}
	k.failedAt = time.Time{}
	return true
}

// openedKey is what a data key is used for.
type openedKey struct {
	aead *subtle.AESGCM
	// bound is what the values are bound to.
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
	failing, missing := !k.failedAt.IsZero() && k.now().Sub(k.failedAt) < readEvery, k.unknown[id]
	k.topic.mu.Unlock()
	if !missing {
		if failing || !k.read(context.Background()) {
			return nil, fmt.Errorf("%w: the brokers do not answer", ErrNoKey)
		}
		if o, err = k.known(id); !errors.Is(err, errUnknown) {
			return o, err
		}
		k.miss(id)
	}
	return nil, fmt.Errorf("%w: there is no data key %s in this namespace", ErrNoKey, events.Clip(id, 64))
}

func (k *Keys) miss(id string) {
	k.topic.mu.Lock()
	defer k.topic.mu.Unlock()
	if k.unknown == nil || len(k.unknown) >= mostUnknown {
		k.unknown = map[string]bool{}
	}
	k.unknown[id] = true
}

var errUnknown = errors.New("unknown data key")

func (k *Keys) known(id string) (*openedKey, error) {
	k.topic.mu.Lock()
	defer k.topic.mu.Unlock()
	d := k.topic.ring.all[id]
	switch {
	case d == nil:
		return nil, errUnknown
	case d.erased != 0:
		return nil, &events.ErasedError{At: d.erased}
	}
	return k.open(d)
}

// open unwraps a data key, unless that was done before. The topic's mu is held.
func (k *Keys) open(d *dataKey) (*openedKey, error) {
	if d.opened != nil {
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
	return d.opened, nil
}

func (k *Keys) unwrap(d *dataKey) ([]byte, error) {
	w := k.file.Now().find(d.With)
	if w == nil {
		w = k.file.Fresh().find(d.With)
	}
	if w == nil {
		return nil, fmt.Errorf("%w: %s does not hold the key %s, which wraps its data key", ErrNoKey, k.file.path, d.With)
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
func (k *Keys) Open(value []byte) ([]byte, error) { return k.openWith(k.find, value) }

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
		return nil, fmt.Errorf("%w: the keys of its subject were erased meanwhile", ErrNoKey)
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

// SealLike seals a value for the subject of a value that is sealed as a whole. It returns the value as it is if it is sealed as a whole already, or
// if the other one is not sealed; and if the key of the other one was erased, what is shown in the place of an erased value.
func (k *Keys) SealLike(like, value []byte) ([]byte, error) {
	s, ok := events.ParseSealed(like)
	if _, sealed := events.ParseSealed(value); !ok || sealed {
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
	d := k.topic.ring.all[s.Key]
	if d == nil { // the topic was made again since it was found
		return nil, fmt.Errorf("%w: its data key is gone", ErrNoKey)
	}
	if d.erased != 0 { // since it was found
		return (&events.ErasedError{At: d.erased}).Value(), nil
	}
	sealed, err := k.seal(d.Subject, "", value)
	if err != nil { // the key file of this process may not have what wraps the latest key yet
		return k.sealWith(s.Key, o, "", value)
	}
	return sealed, nil
}

// seal seals with the latest key of a subject. The topic's mu is held.
func (k *Keys) seal(subject, same string, value []byte) ([]byte, error) {
	d := k.topic.ring.last(subject)
	if d == nil {
		return nil, fmt.Errorf("%w: the keys of its subject were erased meanwhile", ErrNoKey)
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

// ready makes the first data key of a subject if it has none.
func (k *Keys) ready(ctx context.Context, subject string) error {
	if len(subject) > MaxSubject {
		return fmt.Errorf("a subject has %d bytes; %d are allowed", len(subject), MaxSubject)
	}
	has := func() bool {
		k.topic.mu.Lock()
		defer k.topic.mu.Unlock()
		return k.topic.ring.last(subject) != nil
	}
	if has() {
		return nil
	}
	k.making.Lock()
	defer k.making.Unlock()
	if err := k.topic.Read(ctx); err != nil {
		return err
	}
	if has() {
		return nil
	}
	_, err := k.Rotate(ctx, subject)
	return err
}

// Rotate makes another data key of a subject, which seals from then on, and returns its ID. Values that were sealed before stay as they are.
func (k *Keys) Rotate(ctx context.Context, subject string) (id string, err error) {
	k.topic.mu.Lock()
	namespace := k.topic.ring.namespace
	k.topic.mu.Unlock()
	if namespace == "" {
		return "", fmt.Errorf("no data key can be made: namespace %s has none, and only a node knows the ID that a key is bound to", k.topic.namespace)
	}
	id = hex.EncodeToString(randomBytes(8))
	r, err := k.wrap(&dataKey{id: id, keyRecord: keyRecord{Namespace: namespace, Subject: subject, Made: events.At(k.now())}}, randomBytes(keyBytes))
	if err != nil {
		return "", err
	}
	return id, k.topic.write(ctx, r)
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
