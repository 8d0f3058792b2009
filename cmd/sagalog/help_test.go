package main

import (
	"slices"
	"testing"

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
