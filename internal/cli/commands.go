package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/spf13/cobra"
)

// Deps is what the commands need besides the API.
type Deps struct {
	// Load validates a definition without an engine. It returns the faults and, if none of them is an error, the definition
	// to apply. file is its path, or "-" for stdin; $refs are relative to it.
	Load func(file string, data []byte) (*scheduler.Source, []scheduler.Fault)
	// LoadAgents validates a file of agents without starting them. A variable that the environment lacks is a warning. It returns the names of the agents that
	// the file binds, as far as it has no fault.
	LoadAgents func(file string, data []byte) ([]string, []scheduler.Fault)
	// Version is the version of the program, and Commit the one that it was built from, "" if it does not know.
	Version, Commit string
	// Log reads the log without an engine; nil if this program cannot.
	Log Log
	// Namespace are further commands about a namespace, which speak to Kafka.
	Namespace []*cobra.Command
}

// Commands returns the client commands.
func Commands(d Deps) []*cobra.Command {
	return []*cobra.Command{
		workflowCommand(d), taskCommand(d), jobCommand(), scheduleCommand(), limitCommand(), agentsCommand(d), alertCommand(), nodesCommand(), partitionsCommand(), statsCommand(), deadLetterCommand(), namespaceCommand(d), demoCommand(), tokenCommand(), whoamiCommand(), versionCommand(d),
	}
}

func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: use, Short: short}
	apiFlags(g.PersistentFlags())
	g.AddCommand(subs...)
	return g
}

// output adds -o.
func output(c *cobra.Command) *cobra.Command {
	c.Flags().StringP("output", "o", formatTable, "table, json or jsonl")
	suggest(c, "output", formats...)
	return c
}

const moreFormats = "sagalog-formats"

// outputAlso adds -o with one more format.
func outputAlso(c *cobra.Command, format string) *cobra.Command {
	all := append(slices.Clone(formats), format)
	c.Flags().StringP("output", "o", formatTable, "table, json, jsonl or "+format)
	if err := c.Flags().SetAnnotation("output", moreFormats, []string{format}); err != nil {
		panic("cli: " + err.Error())
	}
	suggest(c, "output", all...)
	return c
}

// suggest lets the shell complete a flag.
func suggest(c *cobra.Command, flag string, values ...string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic("cli: " + err.Error())
	}
}

// client turns a function that talks to the API into a RunE.
func client(run func(s *session, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if n := slices.Index(args, ""); n >= 0 {
			return Usage("argument %d is empty: usage is %q", n+1, cmd.UseLine())
		}
		p, err := printerOf(cmd)
		if err != nil {
			return err
		}
		c, err := callerOf(cmd)
		if err != nil {
			return err
		}
		defer c.close()
		return run(&session{caller: c, printer: p, cmd: cmd}, args)
	}
}

func printerOf(cmd *cobra.Command) (*printer, error) {
	p := &printer{format: formatTable, out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()}
	known := formats
	if f := cmd.Flags().Lookup("output"); f != nil {
		p.format, known = f.Value.String(), append(slices.Clone(formats), f.Annotations[moreFormats]...)
	}
	if !slices.Contains(known, p.format) {
		return nil, Usage("--output %q: %s", p.format, events.Suggest(p.format, known))
	}
	return p, nil
}

// VersionLine is what `version` and --version print about a program of that version and commit; commit may be "".
func VersionLine(version, commit string) string {
	from := ""
	if commit != "" {
		from = "commit " + commit + ", "
	}
	return fmt.Sprintf("sagalog %s (%s%s, %s/%s)", version, from, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func versionCommand(d Deps) *cobra.Command {
	return output(&cobra.Command{
		Use: "version", Short: "Print the version of this program, and the commit that it was built from", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := printerOf(cmd)
			if err != nil {
				return err
			}
			if p.format == formatTable {
				_, err = fmt.Fprintln(p.out, VersionLine(d.Version, d.Commit))
				return err
			}
			doc, err := json.Marshal(struct {
				Version string `json:"version"`
				Commit  string `json:"commit,omitempty"`
				Go      string `json:"go"`
				OS      string `json:"os"`
				Arch    string `json:"arch"`
			}{d.Version, d.Commit, runtime.Version(), runtime.GOOS, runtime.GOARCH})
			if err != nil {
				return err
			}
			return p.one(doc, nil)
		},
	})
}
