package config

import (
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHelp(t *testing.T) {
	var out strings.Builder
	_, err := FromArgs([]string{"--help"}, &out)
	require.ErrorIs(t, err, flag.ErrHelp)
	last := -1
	for _, want := range []string{
		"Configuration files and folders:\n  --config\n", "The node and its API server:\n", "  --pod-manifest-path\n        folder, or file, of static pods [staticPodPath]\n",
		"  --hairpin-mode\n        no effect: the network belongs to the container runtime; values: promiscuous-bridge, hairpin-veth, none (default promiscuous-bridge) [hairpinMode]\n",
		"  --port\n        port of the kubelet API (default 10250) [port]\n", "  --cpu-manager-policy\n        only the default is supported: ", "  --vmodule\n        no effect: ",
	} {
		at := strings.Index(out.String(), want)
		require.Greater(t, at, last, want)
		last = at
	}
	out.Reset()
	_, err = FromArgs([]string{"--version"}, &out)
	require.ErrorIs(t, err, flag.ErrHelp)
	// kubeadm accepts one line of this form.
	require.Regexp(t, `^Kubernetes v1\.\d+\.\d+[-\w.+]*\n$`, out.String())
}

// /flagz shows effective values without secrets.
func TestValues(t *testing.T) {
	c, err := withFile(t, "port: 7\nstaticPodURL: http://u:secret@h/", "--kubeconfig=/k", "--node-ip=10.0.0.1,fd00::1", "--node-labels=b=2,a=1", "--cloud-provider=external", "--register-with-taints=x=y:NoExecute", "--maximum-dead-containers=3",
		"--manifest-url-header=a:secret")
	require.NoError(t, err)
	values := c.Values()
	for name, want := range map[string]string{
		"port": "7", "kubeconfig": "/k", "node-ip": "10.0.0.1,fd00::1", "node-labels": "a=1,b=2", "cloud-provider": "external", "register-with-taints": "x=y:NoExecute", "maximum-dead-containers": "3",
		"manifest-url-header": "a:<masked>", "manifest-url": "http://u:xxxxx@h/", "anonymous-auth": "false", "sync-frequency": "1m0s", "lock-file": "", "exit-on-lock-contention": "false", "v": "0", "authorization-mode": "Webhook", "kube-api-qps": "50",
	} {
		require.Equal(t, want, values[name], name)
	}
	require.NotEmpty(t, values["config"])
}
