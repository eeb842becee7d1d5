package nodetest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/podwright/podwright/examples/kubelet/node/nodetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAPI(t *testing.T) {
	api := &nodetest.API{}
	nodetest.TestClients(t, nodetest.Clients{Nodes: api, Leases: api, Name: "n", Delete: func(_ *testing.T, name string) { api.Delete(name) }})
}
