//go:build unix

package execagent_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sagalog/sagalog/agent/execagent"
)

func TestMain(m *testing.M) {
	execagent.Guard()
	goleak.VerifyTestMain(m)
}
