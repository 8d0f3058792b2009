package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/access"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/sealing"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// sealFlags say with which key this process seals what users put into tasks.
type sealFlags struct{ sealKeyFile string }

func (s *sealFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&s.sealKeyFile, "seal-key-file", "", "file with the key that wraps the keys by which inputs, outputs and the like are encrypted, the same on all nodes and agents, "+
		"as made by \"sagalog key create\". A node with the role api then seals every new task. A changed file is read again within a second (default off)")
}

// keys opens the keys of a namespace; nil without a key file.
func (s *sealFlags) keys(ctx context.Context, c *kafka.Cluster, namespace string, log *slog.Logger) (*sealing.Keys, error) {
	file, err := s.keyFile(log)
	if file == nil {
		return nil, err
	}
	k, err := sealing.Open(ctx, c, namespace, file, log)
	if err != nil {
		return nil, fmt.Errorf("--seal-key-file: %w", err)
	}
	return k, nil
}

// keyFile reads the key file; nil without one.
func (s *sealFlags) keyFile(log *slog.Logger) (*sealing.KeyFile, error) {
	if s.sealKeyFile == "" {
		return nil, nil
	}
	file, err := sealing.OpenKeyFile(s.sealKeyFile, log)
	if err != nil {
		return nil, fmt.Errorf("--seal-key-file: %w", err)
	}
	return file, nil
}

// agentKeys are the keys of agents; nil without any.
func agentKeys(k *sealing.Keys) agent.Keys {
	if k == nil {
		return nil
	}
	return k
}

// keysPlace says where keys are managed.
type keysPlace struct {
	connection
	sealFlags
	namespace string
}

func (p *keysPlace) flags(f *pflag.FlagSet) {
	p.connection.flags(f)
	f.StringVar(&p.namespace, "namespace", events.DefaultNamespace, "prefix of all topic names")
}

// topic connects to the topic of keys and reads it.
func (p *keysPlace) topic(ctx context.Context, do func(*kafka.Cluster, *sealing.Topic) error) error {
	if !namespaceName.MatchString(p.namespace) {
		return usage("--namespace %q is not the name of a namespace", p.namespace)
	}
	cluster, err := p.reach(ctx)
	if err != nil {
		return err
	}
	defer cluster.Close()
	t := sealing.NewTopic(cluster, p.namespace, newLogger(true))
	defer t.Close()
	if err := t.Read(ctx); err != nil {
		return err
	}
	if t.Empty() {
		return fmt.Errorf("namespace %s has no keys: nothing was sealed in it (or --namespace is another one)", p.namespace)
	}
	return do(cluster, t)
}

// open is topic with the keys opened.
func (p *keysPlace) open(ctx context.Context, do func(*sealing.Keys) error) error {
	if p.sealKeyFile == "" {
		return usage("--seal-key-file is missing: the file that the nodes have")
	}
	return p.topic(ctx, func(c *kafka.Cluster, _ *sealing.Topic) error {
		k, err := p.keys(ctx, c, p.namespace, newLogger(true))
		if err != nil {
			return err
		}
		return do(k)
	})
}

func keyCommand() *cobra.Command {
	g := &cobra.Command{
		Use: "key", Short: "Make, list and replace the keys by which the content of tasks is encrypted",
		Long: `Make, list and replace the keys by which the content of tasks is encrypted (serve --seal-key-file).

The key file holds the key that wraps all others; it is on each node and agent, and never on a broker. Each subject of tasks, which their
label "subject" names, has its own data keys, which lie wrapped in the topic of keys. ` + "`sagalog namespace erase`" + ` deletes those of a subject.`,
	}
	g.AddCommand(keyCreate(), keyShow(), keyList(), keyRotate(), keyRewrap())
	g.Aliases = []string{"keys"}
	return g
}

func keyCreate() *cobra.Command {
	return &cobra.Command{
		Use: "create FILE", Short: "Make a key file, or add a key to one", Args: cobra.ExactArgs(1),
		Long: `Make a key file. If the file exists, a new key becomes its second line. A process wraps new data keys with its first line, and opens with all of
them; so first all processes must hold the new line. Copy the file to all nodes and agents, and then make the new line the first one everywhere.
Then run ` + "`sagalog key rewrap`" + `, and remove the other lines.`,
		Example: `  sagalog key create seal.key
  sagalog serve --brokers k1:9092 --seal-key-file seal.key`,
		RunE: func(cmd *cobra.Command, args []string) error { return createKey(cmd.OutOrStdout(), args[0]) },
	}
}

// createKey makes a key file, or adds a key to one, as the second line: nobody may wrap with a line that others do not hold yet.
func createKey(out io.Writer, path string) error {
	old, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return access.Replace(path, []byte(sealing.NewKey()+"\n"))
	}
	if err != nil {
		return err
	}
	if _, err := sealing.OpenKeyFile(path, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	first, rest, _ := strings.Cut(strings.TrimSpace(string(old)), "\n")
	lines := first + "\n" + sealing.NewKey() + "\n"
	if rest != "" {
		lines += rest + "\n"
	}
	if err := access.Replace(path, []byte(lines)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "The second line of %s is a new key, and the first one still encrypts. Next:\n"+
		"1. Copy the file to all nodes and agents. They read it within a second.\n"+
		"2. When all have it, make the new line the first one everywhere.\n"+
		"3. Run `sagalog key rewrap`, and then remove the other lines everywhere.\n", path)
	return err
}

// shownKey is a line of a key file.
type shownKey struct {
	Line int    `json:"line"`
	ID   string `json:"id"`
	// Wraps says that new data keys are wrapped with it.
	Wraps bool `json:"wraps"`
}

func keyShow() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "show FILE", Short: "Show the IDs of the keys in a key file", Args: cobra.ExactArgs(1),
		Long: `Show the IDs of the keys in a key file, in the order of its lines, but not the keys. The first key wraps new data keys; the others only open what they
wrapped before. Two files with the same IDs hold the same keys. ` + "`sagalog key list`" + ` shows, in the column WRAPPED BY, which key each data key needs.`,
		Example: "  sagalog key show seal.key",
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "table" && format != "json" {
				return usage("-o %q is not known; use table or json", format)
			}
			file, err := sealing.OpenKeyFile(args[0], slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			return showKeyFile(cmd.OutOrStdout(), file.IDs(), format)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "table", "table or json")
	return cmd
}

func showKeyFile(w io.Writer, ids []string, format string) error {
	var keys []shownKey
	for i, id := range ids {
		keys = append(keys, shownKey{Line: i + 1, ID: id, Wraps: i == 0})
	}
	if format == "json" {
		return printJSON(w, keys)
	}
	fmt.Fprintf(w, "%-6s %-12s %s\n", "LINE", "ID", "USE")
	for _, k := range keys {
		use := "opens what it wrapped before"
		if k.Wraps {
			use = "wraps new data keys, and opens what it wrapped"
		}
		if _, err := fmt.Fprintf(w, "%-6d %-12s %s\n", k.Line, k.ID, use); err != nil {
			return err
		}
	}
	return nil
}

func keyList() *cobra.Command {
	var p keysPlace
	var format string
	cmd := &cobra.Command{
		Use: "list", Short: "List the data keys of all subjects, and which key wraps each", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "table" && format != "json" {
				return usage("-o %q is not known; use table or json", format)
			}
			return p.topic(cmd.Context(), func(_ *kafka.Cluster, t *sealing.Topic) error {
				if format == "json" {
					return printJSON(cmd.OutOrStdout(), t.List())
				}
				return showKeys(cmd.OutOrStdout(), t.List())
			})
		},
	}
	p.flags(cmd.Flags())
	cmd.Flags().StringVarP(&format, "output", "o", "table", "table or json")
	return cmd
}

func showKeys(w io.Writer, list []sealing.Listed) error {
	fmt.Fprintf(w, "%-18s %-26s %-12s %s\n", "KEY", "MADE", "WRAPPED BY", "SUBJECT")
	for _, k := range list {
		with, subject, made := k.With, strconv.Quote(k.Subject), k.Made.String()
		if k.Erased != 0 {
			with = "erased " + k.Erased.String()
		}
		if k.Subject == "" {
			subject = "(the namespace)"
		}
		if k.Made == 0 {
			made = "-"
		}
		if _, err := fmt.Fprintf(w, "%-18s %-26s %-12s %s\n", k.ID, made, with, subject); err != nil {
			return err
		}
	}
	return nil
}

func keyRotate() *cobra.Command {
	var p keysPlace
	var subject string
	cmd := &cobra.Command{
		Use: "rotate", Short: "Make another data key of a subject, which seals from then on", Args: cobra.NoArgs,
		Long: "Make another data key of a subject, which seals from then on. Values that were sealed before stay readable with the keys before it.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.open(cmd.Context(), func(k *sealing.Keys) error {
				id, err := k.Rotate(cmd.Context(), subject)
				if err == nil {
					fmt.Fprintln(cmd.OutOrStdout(), id)
				}
				return err
			})
		},
	}
	p.flags(cmd.Flags())
	p.sealFlags.flags(cmd.Flags())
	cmd.Flags().StringVar(&subject, "subject", "", "the subject; without one, the namespace")
	cli.WithoutVariable(cmd.Flags(), "subject")
	return cmd
}

func keyRewrap() *cobra.Command {
	var p keysPlace
	cmd := &cobra.Command{
		Use: "rewrap", Short: "Wrap all data keys with the first key of the key file", Args: cobra.NoArgs,
		Long: `Wrap each data key that another key wraps with the first key of the key file. Afterwards remove the other lines of the file everywhere: nobody
can then open what a broker's disk, or a copy of it, still holds of data keys that were erased or wrapped before.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.open(cmd.Context(), func(k *sealing.Keys) error {
				n, err := k.Rewrap(cmd.Context())
				if err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "%d data keys wrapped again\n", n)
				}
				return err
			})
		},
	}
	p.flags(cmd.Flags())
	p.sealFlags.flags(cmd.Flags())
	return cmd
}

func eraseCommand() *cobra.Command {
	var p keysPlace
	var subject string
	cmd := &cobra.Command{
		Use: "erase", Short: "Erase what the tasks of a subject hold, by deleting its keys", Args: cobra.NoArgs,
		Long: `Erase what the tasks of a subject hold, by deleting its data keys. The tasks, their states, times and names stay, and all hashes stay the
same; inputs, outputs, progress and the details of errors can never be read again. Nodes and agents notice within a second. Tasks of
the subject that still run are parked, or fail, where they need what was erased. Nothing can undo it.

It needs no key file. Brokers drop the wrapped keys when they compact the topic; ` + "`sagalog key rewrap --help`" + ` says how to be certain at once.`,
		Example: `  sagalog namespace erase --brokers k1:9092 --subject c-17
  sagalog namespace erase --brokers k1:9092 --subject c-17 --yes`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if subject == "" {
				return usage("--subject is missing: the value of the label \"subject\" of the tasks whose content is to be erased")
			}
			return p.topic(cmd.Context(), func(_ *kafka.Cluster, t *sealing.Topic) error { return eraseSubject(cmd, t, subject) })
		},
	}
	p.flags(cmd.Flags())
	cmd.Flags().StringVar(&subject, "subject", "", "the subject")
	cli.WithoutVariable(cmd.Flags(), "subject")
	cli.YesFlag(cmd)
	return cmd
}

// eraseSubject says what will be lost, asks, and erases it.
func eraseSubject(cmd *cobra.Command, t *sealing.Topic, subject string) error {
	var keys []sealing.Listed
	for _, k := range t.List() {
		if k.Subject == subject && k.Erased == 0 {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return fmt.Errorf("subject %q has no data key: it was erased before, or nothing was sealed for it (`sagalog key list`)", subject)
	}
	warning := fmt.Sprintf("The content of the tasks of subject %q will be lost: the inputs, outputs, progress, signals and error messages that were sealed with %s, the first one made at %s. "+
		"Tasks that still run are parked, or fail, when they need it. This cannot be undone.", subject, cli.Counted(len(keys), "data key"), keys[0].Made)
	if err := cli.Agree(cmd, warning, fmt.Sprintf("erase subject %q?", subject)); err != nil {
		return err
	}
	n, err := t.Erase(cmd.Context(), subject, events.At(time.Now()))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "erased: %s of subject %q deleted\n", cli.Counted(n, "data key"), subject)
	return err
}
