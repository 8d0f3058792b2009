package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// valueWords are the words that may stand for the value of a flag. pflag takes a text between backticks for such a word.
var valueWords = []string{"", "string", "strings", "int", "float", "duration", "number", "key:value"}

// Each flag of each command says what kind of value it has, in the usual words.
func TestHelpShowsNoStrangeTypeOfAFlag(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	seen := 0
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		each := func(f *pflag.Flag) {
			seen++
			word, usage := pflag.UnquoteUsage(f)
			require.True(t, slices.Contains(valueWords, word), "%s --%s has the type %q", c.CommandPath(), f.Name, word)
			require.NotContains(t, usage, "`", "%s --%s", c.CommandPath(), f.Name)
		}
		c.LocalFlags().VisitAll(each)
		c.InheritedFlags().VisitAll(each)
		for _, sub := range c.Commands() {
			look(sub)
		}
	}
	root := rootCommand()
	root.InitDefaultCompletionCmd()
	look(root)
	require.Greater(t, seen, 500)
	require.Regexp(t, `--seal-key-file string +file with the key`, place{}.run(t, "serve", "--help").out.String())
}

// A group of commands without a command prints its help to standard error and exits with 2, by each of its names. The name of a thing is there
// in the singular and in the plural.
func TestEachGroupAnswersInTheSameWay(t *testing.T) {
	t.Parallel()
	once := map[string]bool{"demo": true, "export": true, "bench": true, "generate": true, "state": true, "webhook": true, "namespace": true, "completion": true} // these name no list
	groups := 0
	for _, g := range rootCommand().Commands() {
		if !g.HasSubCommands() {
			continue
		}
		groups++
		names := append([]string{g.Name()}, g.Aliases...)
		if !once[g.Name()] {
			require.True(t, slices.ContainsFunc(names, func(n string) bool { return slices.Contains(names, n+"s") }), "%s lacks the singular or the plural of its name", g.Name())
		}
		for _, name := range names {
			if g.Runnable() {
				continue
			}
			var out, errs strings.Builder
			root := rootCommand()
			root.SetOut(&out)
			root.SetErr(&errs)
			require.Equal(t, cli.ExitUsage, cli.Execute(t.Context(), root, []string{name}), name)
			require.Empty(t, out.String(), name)
			require.Contains(t, errs.String(), "Available Commands:", name)
		}
	}
	require.Greater(t, groups, 12)
}
