package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

func deleteWorkflowCommand() *cobra.Command {
	return asksFirst("the workflow", output(&cobra.Command{
		Use: "delete NAME[@VERSION]", Short: "Delete a workflow, or one of its versions", Args: cobra.ExactArgs(1),
		Long: `Delete all versions of a workflow, or one of them. That is refused while a schedule starts it, the current version of another workflow has
a step that starts it, or tasks that have not ended use it. The current version cannot be deleted while there are others: apply another
version first. Nothing else becomes current by a deletion.

Submissions that come afterwards are rejected. What has ended keeps its history. If the same content is applied again, it gets its version
again. The work topics of its agents stay; ` + "`sagalog doctor`" + ` lists those that no workflow names any more.`,
		Example: "  sagalog workflow delete drone-delivery\n  sagalog workflow delete drone-delivery@2",
		RunE:    client(func(s *session, args []string) error { return s.deleteWorkflow(args[0]) }),
	}))
}

func (s *session) deleteWorkflow(what string) error {
	name, version, one := strings.Cut(what, "@")
	path := "/v1/workflows/" + url.PathEscape(name)
	if one {
		if n, err := strconv.Atoi(version); err != nil || n < 1 {
			return Usage("%s does not end in a version, such as %s@2", what, name)
		}
		path += "/versions/" + version
	}
	_, doc, err := s.do(s.cmd.Context(), request{method: http.MethodDelete, path: path})
	if err != nil {
		return ofData(err)
	}
	return s.one(doc, func(w io.Writer) error {
		var d api.DeletedDocument
		if err := decode(doc, &d); err != nil {
			return err
		}
		return table(w, row{"WORKFLOW", "DELETED VERSIONS"}, []row{{d.Name, strings.Trim(fmt.Sprint(d.Versions), "[]")}})
	})
}
