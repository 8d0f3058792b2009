package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// defaultTimeout is longer than a receiver needs to store a message, and short enough that a silent receiver does not block the few concurrent
	// deliveries for long.
	defaultTimeout = 10 * time.Second
	// answerBytes is how much of an answer is read: enough for a sentence.
	answerBytes = 512
	// maxIdle is how many connections to the receiver are kept.
	maxIdle = 8
)

// Config says where messages go.
type Config struct {
	URL string
	// Keys returns what signs the messages. It is called for each attempt, so keys can change. Required.
	Keys func() *Keys
	// AllowHTTP allows plain HTTP to other machines.
	AllowHTTP bool
	// Timeout bounds one attempt; default 10 s.
	Timeout time.Duration
	// Dial replaces TCP, for tests.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Agent is the User-Agent.
	Agent string
}

// Sender sends messages to one receiver. It is safe for concurrent use.
type Sender struct {
	cfg    Config
	host   string
	client *http.Client
}

// Message is one message. ID stays the same whenever it is sent again.
type Message struct {
	ID   string
	Body []byte
}

// Answer is what the receiver said.
type Answer struct {
	Status int
	// RetryAfter is what the receiver asks to wait; zero if it asks nothing.
	RetryAfter time.Duration
	// Text is the beginning of the answer's body, printable.
	Text string
}

// New checks the configuration.
func New(cfg Config) (*Sender, error) {
	u, err := CheckURL(cfg.URL, cfg.AllowHTTP)
	if err != nil {
		return nil, err
	}
	if cfg.Keys == nil {
		return nil, errors.New("a webhook needs a secret")
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost, t.MaxResponseHeaderBytes = maxIdle, 16<<10
	if cfg.Dial != nil {
		t.DialContext, t.Proxy = cfg.Dial, nil
	}
	return &Sender{cfg: cfg, host: u.Host, client: &http.Client{
		Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// CheckURL refuses a URL that messages must not be sent to. Its errors do not quote it.
func CheckURL(text string, allowHTTP bool) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		return nil, errors.New("it is not a URL such as https://example.com/hooks/sagalog")
	case u.User != nil:
		return nil, errors.New("it contains a user or password, which would appear in the logs of proxies: leave them out, since receivers check the signature instead")
	case u.Fragment != "":
		return nil, errors.New("it has a fragment (#), which is never sent: leave it out")
	case u.Scheme == "https":
	case u.Scheme != "http":
		return nil, errors.New("it must begin with https:// (or with http:// for the same machine)")
	case !allowHTTP && !loopback(u.Hostname()):
		return nil, errors.New("anyone on the way can read what goes to another machine by plain HTTP; use https://, or --webhook-allow-http if the network is trusted")
	}
	return u, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// Host is the part of the URL that may be shown.
func (s *Sender) Host() string { return s.host }

// Send makes one attempt. It returns an error if the receiver did not answer.
func (s *Sender) Send(ctx context.Context, m Message) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.cfg.URL, bytes.NewReader(m.Body))
	if err != nil {
		return Answer{}, fmt.Errorf("POST to %s: the request cannot be made", s.host)
	}
	now := time.Now()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", s.cfg.Agent)
	req.Header.Set("webhook-id", m.ID)
	req.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("webhook-signature", s.cfg.Keys().Sign(m.ID, now, m.Body))
	resp, err := s.client.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // it would quote the URL
		}
		if ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %s", s.cfg.Timeout)
		}
		return Answer{}, fmt.Errorf("POST to %s: %s", s.host, printable([]byte(err.Error()))) // it may quote what the receiver sent
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, answerBytes)) // the status decides
	return Answer{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After"), now), Text: printable(body)}, nil
}

// Close ends the connections that are kept.
func (s *Sender) Close() { s.client.CloseIdleConnections() }

// Delivered says whether the receiver has taken the message.
func (a Answer) Delivered() bool { return a.Status >= 200 && a.Status < 300 }

// Refused says that the receiver answered and will probably not change its mind soon.
func (a Answer) Refused() bool {
	return a.Status >= 300 && a.Status < 500 && a.Status != http.StatusRequestTimeout && a.Status != http.StatusTooManyRequests
}

// String says what the receiver answered.
func (a Answer) String() string {
	s := fmt.Sprintf("status %d", a.Status)
	if a.Status >= 300 && a.Status < 400 {
		s += ", a redirect, which is not followed; configure the URL that it leads to"
	}
	if a.Text != "" {
		s += ": " + a.Text
	}
	return s
}

// secretText matches secrets, to keep them out of the log: receivers tend to print what they know when a signature does not match.
var secretText = regexp.MustCompile(`whsec_[A-Za-z0-9+/=_-]*`)

func printable(b []byte) string {
	s := strings.ToValidUTF8(string(b[:min(len(b), answerBytes)]), "")
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
	return secretText.ReplaceAllString(strings.TrimSpace(s), secretPrefix+"...")
}
