package cluster_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

// upstreamVariable is the environment variable with the path of a built upstream kubelet.
const upstreamVariable = "PODWRIGHT_UPSTREAM_KUBELET"

// upstreamKubelet returns the path in upstreamVariable, or skips the test.
func upstreamKubelet(t *testing.T) string {
	t.Helper()
	upstream := os.Getenv(upstreamVariable)
	if upstream == "" {
		t.Skipf("%s is not set to an upstream kubelet", upstreamVariable)
	}
	return upstream
}

// A14, A15: a node that joined with one kubelet continues with the other. Both kubelets use the
// same store of client certificates and the kubeconfig that points to it. On one runtime this
// kubelet begins, on the second one upstream's.
func TestCertificatesChangeHands(t *testing.T) {
	upstream := upstreamKubelet(t)
	onRuntimes(t, func(t *testing.T, plane controlplane.Handle, rt tb.Runtime) {
		n := newStoppedNode(t, plane, rt, nil)
		for name, role := range map[string]string{"node-bootstrapper": "system:node-bootstrapper", "approve": "system:certificates.k8s.io:certificatesigningrequests:nodeclient"} {
			n.do(t, "create", "clusterrolebinding", n.name+"-"+name, "--clusterrole="+role, "--group=system:bootstrappers")
			t.Cleanup(func() { n.do(t, "delete", "clusterrolebinding", n.name+"-"+name) })
		}
		store := filepath.Join(n.dir, "pki")
		join := []string{
			"--kubeconfig=" + filepath.Join(n.dir, "node.kubeconfig"), "--cert-dir=" + store,
			"--bootstrap-kubeconfig=" + n.UserKubeconfig(t, "system:bootstrap:"+n.name, "system:bootstrappers", 0),
		}
		config := filepath.Join(n.dir, "upstream.yaml")
		require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: %s
failCgroupV1: false
cgroupsPerQOS: false
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
rotateCertificates: true
healthzPort: 0
port: %s
evictionHard: {memory.available: 100Mi}
authentication: {x509: {clientCAFile: %s}}
podLogsDir: %s/logs
`, rt.Endpoint, freePort(t), n.CA, n.dir), 0o600))
		ours := slices.Concat(n.args, []string{"--rotate-certificates"}, join)
		theirs := append([]string{"--config=" + config, "--root-dir=" + n.root, "--hostname-override=" + n.name}, join...)
		kubelets := map[string]func(){
			"ours": func() { n.args = ours; n.start(t) },
			"upstream": func() {
				out, err := os.OpenFile(n.output+".upstream", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
				require.NoError(t, err)
				defer out.Close()
				n.cmd = exec.Command(upstream, theirs...)
				n.cmd.Stdout, n.cmd.Stderr = out, out
				require.NoError(t, n.cmd.Start())
			},
		}
		order := []string{"ours", "upstream", "ours"}
		if rt.Name != "containerd-v1" {
			order = []string{"upstream", "ours", "upstream", "ours"}
		}
		requests := func() int {
			return strings.Count(n.do(t, "get", "csr", "-o", `jsonpath={range .items[?(@.spec.username=="system:bootstrap:`+n.name+`")]}{.metadata.name}{"\n"}{end}`), "\n")
		}
		var certificate string
		for i, kubelet := range order {
			kubelets[kubelet]()
			n.waitMatch(t, "node", n.name, "{.status.nodeInfo.kubeletVersion}", func(version string) bool {
				return strings.Contains(version, "podwright") == (kubelet == "ours")
			})
			n.nodeReady(t)
			current, err := os.Readlink(filepath.Join(store, "kubelet-client-current.pem"))
			require.NoError(t, err)
			if i > 0 {
				require.Equal(t, certificate, current, kubelet)
			}
			certificate = current
			require.Equal(t, 1, requests(), "certificate requests after %v", order[:i+1])
			if i < len(order)-1 {
				n.kill(t)
			}
		}
	})
}
