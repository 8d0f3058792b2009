package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/secretfile"
	"github.com/sagalog/sagalog/internal/webhook"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	checkWebhook = "webhook"
	// The values of --webhook-from.
	fromEnd, fromStart = "end", "start"
)

// webhookFlags say where messages about alerts and the outcomes of tasks are sent.
type webhookFlags struct {
	receiver
	kinds []string
	from  string
}

// receiver holds the flags that say where a message goes.
type receiver struct {
	url, secretFile string
	allowHTTP       bool
}

func (r *receiver) flags(f *pflag.FlagSet) {
	f.StringVar(&r.url, "webhook", "", "URL that receives messages about alerts and the outcomes of tasks, signed according to Standard Webhooks. If the URL is a secret, use the variable: everyone on the machine can see flags in ps")
	f.StringVar(&r.secretFile, "webhook-secret-file", "", "file with the secret that signs the messages: whsec_ and 24 to 64 bytes in base64, as printed by echo whsec_$(openssl rand -base64 32). Others must not be able to read it. "+
		"If it has several lines, to replace the secret, each message is signed with all of them. The file is read again when it changes")
	f.BoolVar(&r.allowHTTP, "webhook-allow-http", false, "allow a --webhook with http:// on another machine; anyone on the way can then read the messages")
}

func (w *webhookFlags) flags(f *pflag.FlagSet) {
	all, usual := node.WebhookKinds()
	w.receiver.flags(f)
	f.StringSliceVar(&w.kinds, "webhook-on", usual, "the kinds of messages to send: "+strings.Join(all, ", "))
	f.StringVar(&w.from, "webhook-from", fromEnd, "where a namespace begins that has no webhook yet: at the end of the log, or at its start, to send messages about the past too")
}

func (r *receiver) validate() error {
	switch _, err := webhook.CheckURL(r.url, r.allowHTTP); {
	case r.url == "" && r.secretFile == "":
	case r.url == "":
		return usage("--webhook is missing: give the URL of the receiver, or leave out --webhook-secret-file")
	case err != nil:
		return usage("--webhook: %v", err)
	case r.secretFile == "":
		return usage("--webhook-secret-file is missing: give a file with the secret that signs the messages, since otherwise the receiver cannot tell who sends them")
	}
	return nil
}

func (w *webhookFlags) validate() error {
	all, _ := node.WebhookKinds()
	for _, kind := range w.kinds {
		if !slices.Contains(all, kind) {
			return usage("--webhook-on: %q is not a kind of message; %s", kind, events.Suggest(kind, all))
		}
	}
	if w.from != fromEnd && w.from != fromStart {
		return usage("--webhook-from %q is not known; use %s or %s", w.from, fromEnd, fromStart)
	}
	return w.receiver.validate()
}

// open reads the secret, and again when its file has changed. It returns nil if there is no webhook.
func (r *receiver) open(log *slog.Logger) (*webhook.Sender, error) {
	if r.url == "" {
		return nil, nil
	}
	keys, err := secretfile.Open(r.secretFile, func(text []byte) (*webhook.Keys, error) { return webhook.ParseKeys(string(text)) }, log)
	if err != nil {
		return nil, fmt.Errorf("--webhook-secret-file: %w", err)
	}
	return webhook.New(webhook.Config{URL: r.url, Keys: keys.Now, AllowHTTP: r.allowHTTP, Agent: "sagalog/" + version()})
}

// webhook returns what a node delivers, or nil.
func (w *webhookFlags) webhook(log *slog.Logger) (*node.Webhook, error) {
	s, err := w.receiver.open(log)
	if s == nil || err != nil {
		return nil, err
	}
	return &node.Webhook{Sender: s, On: w.kinds, FromStart: w.from == fromStart}, nil
}

// webhook reads the secret.
func (l *localCheck) webhook() {
	switch hook, err := l.webhookFlags.webhook(slog.New(slog.DiscardHandler)); {
	case err != nil:
		l.findings = append(l.findings, webhookFault(err))
	case hook != nil:
		l.add(checkWebhook, doctor.StatusOK, "the URL and the secret of the webhook are well formed; `sagalog webhook test` sends a test message", "")
	}
}

func webhookFault(err error) doctor.Finding {
	return doctor.Finding{Check: checkWebhook, Status: doctor.StatusFail, What: err.Error(), Remedy: "write a secret to a file that others cannot read: umask 077; echo whsec_$(openssl rand -base64 32) > FILE"}
}

func webhookCommand() *cobra.Command {
	c := &cobra.Command{Use: "webhook", Short: "Test the receiver of the webhook"}
	var r receiver
	test := &cobra.Command{
		Use: "test", Short: "Send one signed test message and print the answer", Args: cobra.NoArgs,
		Long: "Send one message of the type sagalog.test, signed like the messages of serve and dev, and print the answer of the receiver.\nNo engine is needed. The exit code is 1 unless the receiver answers 2xx.",
		Example: "  sagalog webhook test --webhook https://ops.example/hooks/sagalog --webhook-secret-file webhook.secret\n" +
			"  SAGALOG_WEBHOOK=http://127.0.0.1:9000/ SAGALOG_WEBHOOK_SECRET_FILE=webhook.secret sagalog webhook test",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.url == "" {
				return usage("--webhook is missing: give the URL of the receiver")
			}
			if err := r.validate(); err != nil {
				return err
			}
			return r.test(cmd)
		},
	}
	r.flags(test.Flags())
	c.AddCommand(test)
	return c
}

// test sends a message of a type that no engine sends.
func (r *receiver) test(cmd *cobra.Command) error {
	s, err := r.open(slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer s.Close()
	body, err := json.Marshal(map[string]any{"type": "sagalog.test", "timestamp": events.At(time.Now()), "data": map[string]any{"kind": "test", "reason": "sent by sagalog webhook test"}})
	if err != nil {
		return err
	}
	m := webhook.Message{ID: "test/" + strings.ToLower(rand.Text()), Body: body}
	_, _ = fmt.Fprintf(cmd.OutOrStdout(), "POST to %s, webhook-id %s\n%s\n", s.Host(), m.ID, m.Body) // the answer matters more
	began := time.Now()
	a, err := s.Send(cmd.Context(), m)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s (%s)\n", a, time.Since(began).Round(time.Millisecond))
	if !a.Delivered() {
		return errors.New("the receiver did not accept the message: it must answer 2xx")
	}
	return nil
}
