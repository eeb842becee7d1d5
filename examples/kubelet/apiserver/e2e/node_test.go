package e2e

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/node/nodetest"
)

// The real API server meets the assumptions of package node, with the node's own credentials.
func TestOwnNode(t *testing.T) {
	p := newPlane(t)
	name, file := fmt.Sprintf("own-%d", time.Now().UnixNano()), filepath.Join(t.TempDir(), "kubeconfig")
	p.credentials(t, name, file)
	own := p.client(t, file).OwnNode()
	nodetest.TestClients(t, nodetest.Clients{Nodes: own, Leases: own, Name: name, Delete: func(t *testing.T, name string) {
		require.NoError(t, p.admin.Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
	}})
}
