package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// secretPrefix begins the text of a secret.
	secretPrefix = "whsec_"
	// The sizes of a secret in bytes, from the convention.
	leastSecret, mostSecret = 24, 64
	// maxSecrets is enough to replace a secret, and bounds the header.
	maxSecrets = 5
)

// Keys sign messages.
type Keys struct{ secrets [][]byte }

// ParseKeys reads secrets, one a line. A message is signed with each of them.
func ParseKeys(text string) (*Keys, error) {
	k := &Keys{}
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		coded, ok := strings.CutPrefix(line, secretPrefix)
		if !ok {
			return nil, fmt.Errorf("line %d does not begin with %s; a secret is %s and 24 to 64 random bytes in base64, such as printed by: echo %s$(openssl rand -base64 32)", i+1, secretPrefix, secretPrefix, secretPrefix)
		}
		secret, err := base64.StdEncoding.DecodeString(coded)
		if err != nil {
			return nil, fmt.Errorf("line %d: what follows %s is not base64", i+1, secretPrefix) // err would reveal a part of it
		}
		if len(secret) < leastSecret || len(secret) > mostSecret {
			return nil, fmt.Errorf("line %d: the secret has %d bytes; it must have %d to %d", i+1, len(secret), leastSecret, mostSecret)
		}
		if len(k.secrets) == maxSecrets {
			return nil, fmt.Errorf("line %d: more than %d secrets", i+1, maxSecrets)
		}
		k.secrets = append(k.secrets, secret)
	}
	if len(k.secrets) == 0 {
		return nil, errors.New("it is empty: write a secret to it, such as printed by: echo whsec_$(openssl rand -base64 32)")
	}
	return k, nil
}

// Always returns the keys whenever it is called: they never change.
func (k *Keys) Always() func() *Keys { return func() *Keys { return k } }

// Sign returns the value of the header webhook-signature for an attempt at the given time.
func (k *Keys) Sign(id string, at time.Time, body []byte) string {
	list := make([]string, len(k.secrets))
	for i, secret := range k.secrets {
		h := hmac.New(sha256.New, secret)
		h.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		h.Write(body)
		list[i] = "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
	}
	return strings.Join(list, " ")
}

// String hides the secrets when keys are printed.
func (k *Keys) String() string { return fmt.Sprintf("%d secrets", len(k.secrets)) }

// GoString is String.
func (k *Keys) GoString() string { return k.String() }
