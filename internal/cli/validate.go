package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/scheduler"
	"github.com/spf13/cobra"
)

// validating returns every fault of the object in a file.
type validating func(file string, data []byte) []scheduler.Fault

// validateCommand finds the faults of the files of a kind of object. All kinds have this verb.
func validateCommand(kind, short, example string, parse validating) *cobra.Command {
	return output(&cobra.Command{
		Use: "validate FILE...", Short: short, Args: cobra.MinimumNArgs(1),
		Long:    short + ". Each is printed with file, line and column; - is stdin. The exit code is 1 if there are any that are not warnings.",
		Example: "  sagalog " + kind + " validate " + example + "\n  sagalog " + kind + " validate " + kind + "s/*.yaml -o json",
		RunE:    func(cmd *cobra.Command, args []string) error { return validateFiles(cmd, kind, args, parse) },
	})
}

func validateFiles(cmd *cobra.Command, kind string, files []string, parse validating) error {
	p, err := printerOf(cmd)
	if err != nil {
		return err
	}
	all := []json.RawMessage{}
	bad := 0
	for _, file := range files {
		data, err := readFile(cmd, file, kind)
		if err != nil {
			return err
		}
		for _, f := range parse(file, data) {
			if !f.Warning {
				bad++
			}
			doc, err := json.Marshal(f)
			if err != nil {
				return err
			}
			all = append(all, doc)
		}
	}
	if err := printFaults(p, all); err != nil {
		return err
	}
	if bad > 0 {
		return exit(ExitError, "%s", Counted(bad, "fault"))
	}
	text := "valid: " + strings.Join(files, ", ")
	if len(all) > 0 {
		text += " (" + Counted(len(all), "warning") + ")"
	}
	p.note("%s", text)
	return nil
}

func printFaults(p *printer, docs []json.RawMessage) error {
	if p.format != formatTable {
		return p.list(docs, listing{})
	}
	for _, d := range docs {
		var f scheduler.Fault
		if err := decode(d, &f); err != nil {
			return err
		}
		fmt.Fprintln(p.out, Printable(f.String()))
	}
	return nil
}

// Counted returns the number and the noun, which takes an s in the plural.
func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func workflowValidateCommand(d Deps) *cobra.Command {
	return validateCommand("workflow", "Find every fault in definitions, without an engine", "workflow.yaml",
		func(file string, data []byte) []scheduler.Fault {
			_, faults := d.Load(file, data)
			return faults
		})
}

func agentValidateCommand(d Deps) *cobra.Command {
	files := map[string]string{} // by agent
	c := validateCommand("agent", "Find every fault in files of agents, without starting them", "bank.yaml",
		func(file string, data []byte) []scheduler.Fault {
			names, faults := d.LoadAgents(file, data)
			for _, name := range names {
				if first, twice := files[name]; twice {
					faults = append(faults, scheduler.Fault{File: file, Line: 1, Column: 1, Message: fmt.Sprintf("agent %q is bound in %s already", name, first)})
				}
				files[name] = file
			}
			return faults
		})
	c.Long += "\nThe files are those of `sagalog dev --agents DIR` and `sagalog serve --agents DIR`. A variable that is not set is only a warning here, but\nit must be set where the agent starts."
	c.Example = "  sagalog agents validate bank.yaml\n  sagalog agents validate agents/*.yaml -o json"
	return c
}
