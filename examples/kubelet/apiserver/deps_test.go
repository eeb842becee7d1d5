package apiserver_test

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The cost of a client is mostly linked code: the whole clientset adds 36 MB to the binary and 20
// MiB to memory.
func TestLinkedPackages(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the go command and the modules")
	}
	var stderr bytes.Buffer
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/podwright/podwright/examples/kubelet/...")
	list.Stderr = &stderr
	out, err := list.Output()
	require.NoError(t, err, stderr.String())
	linked := strings.Fields(string(out))
	require.Contains(t, linked, "k8s.io/client-go/rest", "the list contains linked packages")
	for _, banned := range []string{
		"k8s.io/client-go/kubernetes", "k8s.io/client-go/informers", "k8s.io/client-go/listers", "k8s.io/client-go/applyconfigurations",
		"k8s.io/client-go/discovery", "k8s.io/client-go/dynamic", "k8s.io/client-go/testing", "k8s.io/client-go/gentype",
		"k8s.io/client-go/util/certificate", "k8s.io/apiserver", "k8s.io/api/apps", "k8s.io/api/batch", "k8s.io/api/networking", "k8s.io/api/extensions",
	} {
		i := slices.IndexFunc(linked, func(p string) bool { return p == banned || strings.HasPrefix(p, banned+"/") })
		require.Negative(t, i, "%s is linked", banned)
	}
}
