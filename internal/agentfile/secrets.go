package agentfile

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// secretMin is the length from which the value of a variable is redacted. Shorter values ("1", "eu") occur in any text, and no
// password is that short.
const secretMin = 6

// Secrets replaces secret values, in the forms in which services repeat them, by the names of their variables. A nil value
// replaces nothing.
type Secrets struct {
	replacer *strings.Replacer
	// forms are all that is replaced, the longest first.
	forms []string
}

// NewSecrets returns the secrets of a binding by name.
func NewSecrets(values map[string]string) *Secrets {
	var pairs [][2]string
	for name, v := range values {
		if len(v) < secretMin {
			continue
		}
		for _, form := range forms(v) {
			pairs = append(pairs, [2]string{form, "${ env." + name + " }"})
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	// The longest form comes first: one value may begin with another.
	slices.SortFunc(pairs, func(a, b [2]string) int {
		return cmp.Or(len(b[0])-len(a[0]), strings.Compare(a[0], b[0]), strings.Compare(a[1], b[1]))
	})
	var list, forms []string
	for _, p := range pairs {
		list, forms = append(list, p[0], p[1]), append(forms, p[0])
	}
	return &Secrets{strings.NewReplacer(list...), forms}
}

// forms returns a value unchanged, escaped, and encoded.
func forms(v string) []string {
	quoted := string(mustMarshal(v))
	out := []string{v, quoted[1 : len(quoted)-1], url.QueryEscape(v), url.PathEscape(v), EncodeUnless(v, Unreserved)}
	if b, err := json.Marshal(v); err == nil { // with the escapes of HTML
		out = append(out, string(b[1:len(b)-1]))
	}
	// In base64, the characters of a value depend on its distance from the beginning: a password follows a user and a colon.
	// The first and the last of its characters also hold bits of the neighbours, so they are left out.
	for before := range 3 {
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			s := e.EncodeToString(append(make([]byte, before, before+len(v)), v...))
			s = s[(before*8+5)/6:]
			if (before+len(v))%3 != 0 {
				s = s[:len(s)-1]
			}
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Text redacts a text.
func (s *Secrets) Text(t string) string {
	if s == nil {
		return t
	}
	return s.replacer.Replace(t)
}

// Longest is the length of the longest form of a secret.
func (s *Secrets) Longest() int {
	if s == nil {
		return 0
	}
	return len(s.forms[0])
}

// WithoutRest returns a text that was cut at its beginning without the rest of a secret there, which Text would not recognize.
func (s *Secrets) WithoutRest(text string) string {
	if s == nil {
		return text
	}
	most := 0
	for _, form := range s.forms {
		for n := min(len(form)-1, len(text)); n > most; n-- {
			if strings.HasPrefix(text, form[len(form)-n:]) {
				most = n
			}
		}
	}
	return text[most:]
}

// JSON redacts the strings of a JSON value as a reader sees them, without their escapes, and its numbers.
func (s *Secrets) JSON(raw json.RawMessage) json.RawMessage {
	if s == nil || len(raw) == 0 || bytes.IndexByte(raw, '\\') < 0 && s.Text(string(raw)) == string(raw) {
		return raw
	}
	var out []byte
	for at := 0; at < len(raw); {
		end := tokenEnd(raw, at)
		out = append(out, s.token(raw[at:end])...)
		at = end
	}
	return out
}

// token redacts a string or a number. A number that holds a secret becomes a string.
func (s *Secrets) token(token []byte) []byte {
	var plain string
	if token[0] != '"' {
		if plain = s.Text(string(token)); plain == string(token) {
			return token
		}
		return mustMarshal(plain)
	}
	if json.Unmarshal(token, &plain) != nil {
		return token
	}
	redacted := s.Text(plain)
	if redacted == plain {
		return token
	}
	out, err := events.Marshal(redacted)
	if err != nil {
		return token
	}
	return out
}

// tokenEnd returns the end of the string, number or word, or of the single character, that begins at an offset.
func tokenEnd(raw []byte, at int) int {
	if raw[at] != '"' {
		end := at
		for end < len(raw) && bytes.IndexByte([]byte("{}[]:,\" \t\r\n"), raw[end]) < 0 {
			end++
		}
		return max(end, at+1)
	}
	for end := at + 1; end < len(raw); end++ {
		switch raw[end] {
		case '\\':
			end++
		case '"':
			return end + 1
		}
	}
	return len(raw)
}
