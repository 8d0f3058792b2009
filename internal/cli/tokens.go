package cli

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sagalog/sagalog/internal/access"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

// The files of `token init`.
const (
	fileTokens  = "tokens.json"
	fileAdmin   = "admin.token"
	fileNodeKey = "node.key"
)

func tokenCommand() *cobra.Command {
	g := &cobra.Command{
		Use: "token", Short: "Make, list and revoke the tokens of a file (serve --tokens)",
		Long: `Make, list and revoke the tokens of the file that ` + "`sagalog serve --tokens`" + ` reads. It holds only hashes. Running nodes read it again within
a second of a change; where each node has a copy, copy it again.`,
	}
	g.AddCommand(tokenInit(), tokenCreate(), tokenList(), tokenRevoke())
	g.Aliases = []string{"tokens"}
	return g
}

func tokenInit() *cobra.Command {
	return &cobra.Command{
		Use: "init DIR", Short: "Make the files for the access of an engine, those that are missing", Args: cobra.ExactArgs(1),
		Long: `Make the files for the access of an engine in a directory: ` + fileTokens + ` with a token of the role admin, this token in ` + fileAdmin + `, and
` + fileNodeKey + `, by which nodes sign the requests that they pass to each other. All nodes need the same two files, ` + fileTokens + ` and ` + fileNodeKey + `.
Files that exist are left as they are.`,
		Example: `  sagalog token init ./access
  sagalog serve --brokers k1:9092 --tokens ./access/tokens.json --node-key-file ./access/node.key
  sagalog task list --token-file ./access/admin.token`,
		RunE: func(cmd *cobra.Command, args []string) error { return initTokens(cmd, args[0]) },
	}
}

func initTokens(cmd *cobra.Command, dir string) error {
	note := func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tokens, admin, key := filepath.Join(dir, fileTokens), filepath.Join(dir, fileAdmin), filepath.Join(dir, fileNodeKey)
	_, noAdmin := os.Stat(admin)
	switch _, err := os.Stat(tokens); {
	case errors.Is(err, fs.ErrNotExist):
		if noAdmin == nil {
			return fmt.Errorf("%s exists, but %s does not, so its token is not valid: put the missing file back, or move the token away and try again", admin, tokens)
		}
		if err := createInto(tokens, admin, access.New{Name: string(access.Admin), Role: access.Admin, Now: time.Now()}); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		note("%s exists and is left as it is", tokens)
		if errors.Is(noAdmin, fs.ErrNotExist) {
			note("%s does not exist, and its token cannot be shown again; to make another one: sagalog token create --file %s --name admin-2 --role admin --to %s", admin, tokens, admin)
		}
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it never fails
	switch err := writeNew(key, hex.EncodeToString(random)); {
	case errors.Is(err, fs.ErrExist):
		note("%s exists and is left as it is", key)
	case err != nil:
		return err
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "Nodes:    --tokens %s --node-key-file %s\nCommands: --token-file %s\n", tokens, key, admin)
	return err
}

// createInto makes a token whose text only a file gets.
func createInto(tokens, to string, n access.New) error {
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // first, so that no token is made that nobody has
	if err != nil {
		return err
	}
	text, err := access.Create(tokens, n)
	if err == nil {
		_, err = fmt.Fprintln(f, text)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(to) // the error says more
	}
	return err
}

func writeNew(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, text)
	return errors.Join(err, f.Close())
}

func tokenCreate() *cobra.Command {
	c := &cobra.Command{
		Use: "create", Short: "Make a token, and print it: nobody can get it again", Args: cobra.NoArgs,
		Long: `Make a token. Its name stands in the facts of what its holder asks for. A role includes those before it: viewer (reads), submitter (submits
tasks, sends signals), operator (steers tasks, runs jobs, pauses agents, limits and schedules), admin (changes definitions, limits,
schedules and settings).`,
		Example: `  sagalog token create --file ./access/tokens.json --name ci --role submitter --expires 720h
  sagalog token create --file ./access/tokens.json --name prometheus --role viewer --to ./prometheus.token`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f := cmd.Flags()
			file, err := tokensFile(cmd)
			if err != nil {
				return err
			}
			name, _ := f.GetString("name")
			role, _ := f.GetString("role")
			to, _ := f.GetString("to")
			n := access.New{Name: name, Now: time.Now()}
			if n.For, _ = f.GetDuration("expires"); n.For <= 0 && f.Changed("expires") {
				return Usage("--expires %s is not above zero: give a duration such as 720h, or leave it out for a token that is valid until it is revoked", n.For)
			}
			if n.Name == "" {
				return Usage("--name is missing: who will use the token, such as ci")
			}
			if n.Role, err = access.ParseRole(role); err != nil {
				return Usage("--role: %s", err)
			}
			if to != "" {
				return tokenError(createInto(file, to, n))
			}
			text, err := access.Create(file, n)
			if err != nil {
				return tokenError(err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
	tokensFlag(c)
	c.Flags().String("name", "", "who will use it; letters, digits and . _ @ -")
	c.Flags().String("role", "", "viewer, submitter, operator or admin")
	c.Flags().Duration("expires", 0, "how long it is valid, such as 720h (default: until it is revoked)")
	c.Flags().String("to", "", "write it to this file, which must not exist, instead of printing it")
	suggest(c, "role", "viewer", "submitter", "operator", "admin")
	for _, name := range []string{"name", "role", "expires", "to"} {
		WithoutVariable(c.Flags(), name)
	}
	return c
}

func tokenList() *cobra.Command {
	c := output(&cobra.Command{
		Use: "list", Short: "List the tokens of a file", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := printerOf(cmd)
			if err != nil {
				return err
			}
			file, err := tokensFile(cmd)
			if err != nil {
				return err
			}
			list, err := access.ReadTokens(file)
			if err != nil {
				return err
			}
			type shown struct {
				Name    string      `json:"name"`
				Role    access.Role `json:"role"`
				Created time.Time   `json:"created"`
				Expires time.Time   `json:"expires,omitzero"`
			}
			docs := []json.RawMessage{}
			for _, t := range list {
				doc, err := json.Marshal(shown{t.Name, t.Role, t.Created, t.Expires})
				if err != nil {
					return err
				}
				docs = append(docs, doc)
			}
			return p.list(docs, listing{none: file + " has no tokens", head: row{"NAME", "ROLE", "CREATED", "EXPIRES"}, cells: func(doc json.RawMessage) (row, error) {
				var t shown
				err := json.Unmarshal(doc, &t)
				expires := "never"
				if !t.Expires.IsZero() {
					expires = t.Expires.Format(time.RFC3339)
				}
				return row{t.Name, string(t.Role), t.Created.Format(time.RFC3339), expires}, err
			}})
		},
	})
	tokensFlag(c)
	return c
}

func tokenRevoke() *cobra.Command {
	c := &cobra.Command{
		Use: "revoke NAME", Short: "Remove a token from a file", Args: cobra.ExactArgs(1),
		Long: "Remove a token from a file. Requests with it are then refused, and streams and bulk submissions that it opened end. Jobs, schedules and tasks\n" +
			"that it started continue under its name: `sagalog job list` shows its jobs, and `sagalog job stop` stops one.",
		Example: "  sagalog token revoke ci --file ./access/tokens.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := tokensFile(cmd)
			if err != nil {
				return err
			}
			if err := access.Revoke(file, args[0]); err != nil {
				return tokenError(err)
			}
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%s is revoked. What it started continues under its name: `sagalog job list` shows its jobs (column BY), and `sagalog job stop ID` stops one.\n", Printable(args[0]))
			return err
		},
	}
	tokensFlag(c)
	return c
}

func tokensFlag(c *cobra.Command) {
	c.Flags().String("file", "", "the file of the tokens [$SAGALOG_TOKENS]")
	WithoutVariable(c.Flags(), "file") // its variable is that of serve --tokens
}

func tokensFile(cmd *cobra.Command) (string, error) {
	name, err := cmd.Flags().GetString("file")
	if name = cmp.Or(name, os.Getenv(Variable("tokens"))); name == "" && err == nil {
		err = Usage("--file is missing: the file of the tokens, such as ./access/tokens.json")
	}
	return name, err
}

// tokenError gives an error its exit code.
func tokenError(err error) error {
	switch {
	case errors.Is(err, access.ErrExists), errors.Is(err, fs.ErrExist):
		return exit(ExitConflict, "%w", err)
	case errors.Is(err, access.ErrNotFound):
		return exit(ExitNotFound, "%w", err)
	}
	return err
}

func whoamiCommand() *cobra.Command {
	c := output(&cobra.Command{
		Use: "whoami", Short: "Show who the engine takes you for, and your role", Args: cobra.NoArgs,
		RunE: client(func(s *session, _ []string) error {
			doc, err := s.get(s.cmd.Context(), "/v1/whoami", nil)
			if err != nil {
				return err
			}
			var d api.WhoamiDocument
			if err := decode(doc, &d); err != nil {
				return err
			}
			rows := []row{{"NAME", cmp.Or(d.Name, "-")}, {"ROLE", string(d.Role)}, {"ACCESS", d.Access}}
			if d.Expires != 0 {
				rows = append(rows, row{"EXPIRES", d.Expires.String()})
			}
			return s.one(doc, func(w io.Writer) error { return table(w, nil, rows) })
		}),
	})
	apiFlags(c.Flags())
	return c
}
