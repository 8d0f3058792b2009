package main

import "github.com/spf13/cobra"

func generateCommand() *cobra.Command {
	g := &cobra.Command{Use: "generate", Short: "Print files that other programs read"}
	g.AddCommand(generateSchema(), generateAsyncAPI())
	g.AddCommand(generateMonitoring()...)
	g.AddCommand(generateHelm())
	g.AddCommand(generateACLs(), generateReference())
	return g
}
