package reference

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Commands returns the page of all commands below the root, which must have got its variables already (cli.Prepare).
func Commands(root *cobra.Command) []byte {
	p := begin("Commands", "Every command with its flags. [Which command does what](../commands.md) is shorter. A flag that names a variable in brackets can be set by it, and\n"+
		"[exit codes](exit-codes.md) mean the same everywhere.")
	var rows [][]string
	each(root, func(c *cobra.Command) {
		if !c.HasAvailableSubCommands() {
			rows = append(rows, []string{fmt.Sprintf("[%s](#%s)", c.CommandPath(), anchor(c.CommandPath())), sentence(c.Short)})
		}
	})
	p.table([]string{"command", "what it does"}, rows)
	each(root, p.command)
	return p.bytes()
}

// each visits the commands in the order of their names, groups before what is in them.
func each(c *cobra.Command, visit func(*cobra.Command)) {
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() || sub.Name() == "help" || sub.Name() == "completion" {
			continue
		}
		visit(sub)
		each(sub, visit)
	}
}

func (p *page) command(c *cobra.Command) {
	if c.HasAvailableSubCommands() {
		if shared := flags(c.PersistentFlags()); shared != "" {
			p.head(2, c.CommandPath())
			p.text(sentence(c.Short) + " Flags of all commands below it:")
			p.block(shared)
		}
		return
	}
	p.head(2, c.CommandPath())
	p.text(sentence(c.Short))
	p.block(c.UseLine())
	if c.Long != "" && c.Long != c.Short {
		p.block(c.Long)
	}
	if len(c.Aliases) > 0 {
		p.text("Also: " + codes(c.Aliases) + ".")
	}
	if c.Example != "" {
		p.text("Examples:")
		p.block(dedent(c.Example))
	}
	if own := flags(c.LocalNonPersistentFlags()); own != "" {
		p.text("Flags:")
		p.block(own)
	}
}

// flags describes flags in the order of their names. --help needs no description.
func flags(set *pflag.FlagSet) string {
	shown := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			shown.AddFlag(f)
		}
	})
	return strings.TrimRight(shown.FlagUsages(), "\n")
}

// dedent removes the two spaces with which examples begin in the help.
func dedent(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.Join(lines, "\n")
}
