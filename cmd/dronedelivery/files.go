package main

import (
	"fmt"
	"os"

	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/spf13/cobra"
)

func newFiles() *cobra.Command {
	return &cobra.Command{
		Use:   "files DIR",
		Short: "Write the workflow, its schema and the agent bindings into a directory",
		Long: `Writes DIR/workflow.yaml, DIR/delivery.schema.json and DIR/agents/<service>.yaml. Files that exist are never
overwritten: then nothing more is written and the command fails.

The bindings look for the services' URLs in ACCOUNT_URL, PACKAGE_URL, TRANSPORT_URL, DRONE_URL and DELIVERY_URL.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.CopyFS(args[0], dronedelivery.Files()); err != nil {
				return fmt.Errorf("write files: %w", err)
			}
			return nil
		},
	}
}
