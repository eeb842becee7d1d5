package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
	"github.com/podwright/podwright/internal/fields"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// waitTimeout bounds the wait for a server on a loaded machine.
const waitTimeout = 60 * time.Second

type plane struct {
	controlplane.Handle
	admin *apiserver.Client
}

func newPlane(t testing.TB) plane {
	p := plane{Handle: controlplane.Of(t)}
	p.admin = p.client(t, p.Kubeconfig)
	p.namespace(t, "default")
	return p
}

// namespace creates a namespace, and waits for its default service account.
func (p plane) namespace(t testing.TB, name string) {
	cfg, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	require.NoError(t, err)
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(apiserver.Scheme())
	c, err := rest.UnversionedRESTClientFor(cfg)
	require.NoError(t, err)
	defer utilnet.CloseIdleConnectionsFor(c.Client.Transport)
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)
	err = c.Post().AbsPath("/api/v1/namespaces").SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(t.Context()).Error()
	require.True(t, err == nil || apierrors.IsAlreadyExists(err), "%v", err)
	require.Eventually(t, func() bool {
		_, err := p.admin.ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	}, waitTimeout, 50*time.Millisecond)
}

func (p plane) client(t testing.TB, kubeconfig string) *apiserver.Client {
	require.NoError(t, fields.Required("kubeconfig", kubeconfig))
	c, err := apiserver.New(apiserver.Config{Kubeconfig: kubeconfig, UserAgent: "podwright-test", Limits: apiserver.Limits{QPS: -1}, Period: 50 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(c.CloseConnections)
	return c
}

// credentials writes a kubeconfig with a new certificate of a node.
func (p plane) credentials(t testing.TB, node, file string) {
	require.NoError(t, os.Rename(p.NodeKubeconfig(t, node, time.Hour), file))
}

type node struct {
	plane
	*apiserver.Client
	name, kubeconfig string
	object           *v1.Node
}

func (p plane) node(t testing.TB) *node {
	n := &node{plane: p, name: fmt.Sprintf("node-%d", time.Now().UnixNano()), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	p.credentials(t, n.name, n.kubeconfig)
	n.Client = p.client(t, n.kubeconfig)
	var err error
	n.object, err = n.OwnNode().CreateNode(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		require.NoError(t, p.admin.Nodes().Delete(ctx, n.name, metav1.DeleteOptions{}))
	})
	return n
}

func (n *node) pod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       v1.PodSpec{NodeName: n.name, Containers: []v1.Container{{Name: "app", Image: "image"}}},
	}
}

// create creates a pod as an administrator, and removes it at the end of the test.
func (n *node) create(t testing.TB, pod *v1.Pod) *v1.Pod {
	created, err := n.admin.Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { n.remove(t, pod.Namespace, pod.Name) })
	return created
}

func (n *node) remove(t testing.TB, namespace, name string) {
	none := int64(0)
	_ = n.admin.Pods(namespace).Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{GracePeriodSeconds: &none}) // the pod may not exist
}

func (n *node) podOrNil(t testing.TB, namespace, name string) *v1.Pod {
	pod, err := n.admin.Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return pod
}

func (n *node) setStatus(t testing.TB, pod *v1.Pod) *v1.Pod {
	updated, err := n.admin.Pods(pod.Namespace).Update(t.Context(), pod, metav1.UpdateOptions{}, "status")
	require.NoError(t, err)
	return updated
}

func patch[T apiserver.Object, L runtime.Object](t testing.TB, r apiserver.Resource[T, L], name string, change any) T {
	data, err := json.Marshal(change)
	require.NoError(t, err)
	obj, err := r.Patch(t.Context(), name, types.StrategicMergePatchType, data, metav1.PatchOptions{})
	require.NoError(t, err)
	return obj
}

func eventually(t testing.TB, goal string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, waitTimeout, 20*time.Millisecond, goal)
}

func deleteObject[T apiserver.Object, L runtime.Object](t testing.TB, r apiserver.Resource[T, L], name string) {
	none := int64(0)
	_ = r.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{GracePeriodSeconds: &none}) // the object may not exist
}
