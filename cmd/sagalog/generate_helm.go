package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/sagalog/sagalog/deploy/helm"
	"github.com/spf13/cobra"
)

// generateHelm is the command that writes the Helm chart.
func generateHelm() *cobra.Command {
	return &cobra.Command{
		Use: "helm DIR", Short: "Write the Helm chart of this version into a new directory", Args: cobra.ExactArgs(1),
		Example: "  sagalog generate helm ./chart\n  helm install sagalog ./chart --set kafka.brokers[0]=kafka:9092",
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := args[0]
			if err := os.Mkdir(dir, 0o755); errors.Is(err, fs.ErrExist) {
				// An older chart may have files that this one lacks, and Helm would install both.
				return fmt.Errorf("%s exists already: name a directory that does not exist, or remove it first", dir)
			} else if err != nil {
				return err
			}
			if err := os.CopyFS(dir, helm.Chart()); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.ErrOrStderr(), "wrote the chart to %s; README.md in it explains the values\n", dir)
			return err
		},
	}
}
