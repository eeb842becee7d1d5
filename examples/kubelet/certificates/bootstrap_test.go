package certificates

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	certv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
)

// joining is a node that has only a bootstrap kubeconfig.
type joining struct {
	*cluster
	t      *testing.T
	dir    string
	config BootstrapConfig
	result error
}

func newJoining(t *testing.T) *joining {
	j := &joining{cluster: newCluster(t), t: t, dir: t.TempDir()}
	j.config = BootstrapConfig{
		Kubeconfig: at(j.dir, "etc/kubeconfig"), From: j.Kubeconfig, Store: Store{Dir: at(j.dir, "pki"), Name: "kubelet-client"},
		NodeName: "worker", UserAgent: "test/1", Dial: j.Dial,
	}
	return j
}

func bootstrapping(t *testing.T, test func(t *testing.T, j *joining)) {
	synctest.Test(t, func(t *testing.T) { test(t, newJoining(t)) })
}

// waits starts Bootstrap and checks that it waits for the cluster.
func (j *joining) waits(why ...any) (ended func() bool, stop func()) {
	j.t.Helper()
	ended, stop = j.start()
	require.False(j.t, ended(), why...)
	return ended, stop
}

// joins starts Bootstrap and checks that it returns at once.
func (j *joining) joins(why ...any) {
	j.t.Helper()
	ended, _ := j.start()
	require.True(j.t, ended())
	require.NoError(j.t, j.result, why...)
}

// start runs Bootstrap. ended reports whether it has returned; stop cancels it.
func (j *joining) start() (ended func() bool, stop func()) {
	ctx, stop := context.WithCancel(j.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); j.result = Bootstrap(ctx, j.config) }()
	j.t.Cleanup(func() { stop(); <-done })
	ended = func() bool {
		synctest.Wait()
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
	return ended, stop
}

// A14: Bootstrap posts a request. After its approval it writes a kubeconfig that points to the
// certificate; later starts use only that.
func TestBootstrap(t *testing.T) {
	bootstrapping(t, func(t *testing.T, j *joining) {
		ended, _ := j.waits()
		request := j.only()
		require.Regexp(t, "^node-csr-[-_A-Za-z0-9]{43}$", request.Name)
		require.Equal(t, certv1.KubeAPIServerClientKubeletSignerName, request.Spec.SignerName)
		require.Equal(t, []certv1.KeyUsage{certv1.UsageDigitalSignature, certv1.UsageClientAuth}, request.Spec.Usages)
		require.NoFileExists(t, j.config.Kubeconfig)
		asked := j.issue(request, 100*time.Hour)
		require.Equal(t, "CN=system:node:worker,O=system:nodes", asked.Subject.String())
		require.True(t, ended())
		require.NoError(t, j.result)
		require.Len(t, names(t, j.config.Store.Dir), 2, "the key file was removed")

		config, err := clientcmd.LoadFromFile(j.config.Kubeconfig)
		require.NoError(t, err)
		require.Equal(t, "http://server.test", config.Clusters["default-cluster"].Server)
		user := config.AuthInfos["default-auth"]
		require.Equal(t, []string{j.config.Store.CurrentPath(), j.config.Store.CurrentPath()}, []string{user.ClientCertificate, user.ClientKey})
		require.Empty(t, user.Token, "the bootstrap credentials are not copied")
		info, err := os.Stat(j.config.Kubeconfig)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode())
		client, err := apiserver.New(apiserver.Config{Kubeconfig: j.config.Kubeconfig, UserAgent: "test/1"})
		require.NoError(t, err)
		require.Equal(t, time.Now().Add(100*time.Hour).Unix(), client.Expires().Unix())

		require.NoError(t, os.Remove(j.config.From))
		j.joins("the bootstrap kubeconfig is not read")
		require.Len(t, apitest.All[*certv1.CertificateSigningRequest](j.Server), 1)
	})
}

// Bootstrap continues after a kill at any point.
func TestBootstrapAgain(t *testing.T) {
	bootstrapping(t, func(t *testing.T, j *joining) {
		ended, stop := j.waits()
		stop()
		require.True(t, ended())
		require.ErrorIs(t, j.result, context.Canceled)
		require.FileExists(t, at(j.config.Store.Dir, keyFile))

		ended, stop = j.waits() // the key and the request exist
		request := j.only()
		stop()
		require.True(t, ended())
		j.issue(request, time.Hour)
		j.joins() // the server has the certificate

		require.NoError(t, os.Remove(j.config.Kubeconfig)) // the store has the certificate
		j.joins()
		require.FileExists(t, j.config.Kubeconfig)
		require.Len(t, apitest.All[*certv1.CertificateSigningRequest](j.Server), 1)

		isIssued := func(why string) {
			ended, _ := j.waits(why)
			j.issue(j.only(), time.Hour)
			require.True(t, ended())
			require.NoError(t, j.result)
		}
		time.Sleep(2 * time.Hour)
		isIssued("it has expired")
		j.config.NodeName = "other"
		require.NoError(t, os.Remove(j.config.Kubeconfig))
		write(t, at(j.config.Store.Dir, keyFile), []byte("half a key"))
		isIssued("the certificate is another node's")
	})
}

// Bootstrap waits for an unreachable server, requests a new certificate after an unusable one, and
// fails if the request is refused.
func TestBootstrapRetries(t *testing.T) {
	bootstrapping(t, func(t *testing.T, j *joining) {
		j.SetDown(true)
		ended, _ := j.start()
		time.Sleep(50 * time.Minute)
		require.False(t, ended())
		j.SetDown(false)
		time.Sleep(2 * pauseMax)
		require.False(t, ended())
		j.issue(j.only(), -time.Minute)
		require.True(t, ended())
		require.ErrorContains(t, j.result, "the issued certificate expired at")
		require.NoFileExists(t, at(j.config.Store.Dir, keyFile))

		ended, _ = j.waits()
		j.decide(j.only(), certv1.CertificateDenied)
		require.True(t, ended())
		require.ErrorIs(t, j.result, ErrDenied)
		require.NoFileExists(t, j.config.Kubeconfig)

		require.NoError(t, os.WriteFile(j.config.From, []byte("a: ["), 0o600))
		ended, _ = j.start()
		require.True(t, ended())
		var wrong *apiserver.ConfigError
		require.True(t, errors.As(j.result, &wrong), "%v", j.result)
		require.Equal(t, j.config.From, wrong.File)
	})
}

func TestBootstrapConfigIsChecked(t *testing.T) {
	err := Bootstrap(t.Context(), BootstrapConfig{})
	for _, field := range []string{"Kubeconfig", "From", "Store.Dir", "Store.Name", "NodeName", "UserAgent"} {
		require.ErrorContains(t, err, "certificates: BootstrapConfig."+field+" is required")
	}
}

// A15: a client with a bootstrapped kubeconfig uses the next certificate without a restart, and
// stops using the previous one.
func TestClientCertificateRotates(t *testing.T) {
	server, ca, dir := apitest.New(), apitest.NewAuthority(t), t.TempDir()
	address := server.StartTLS(t, ca)
	store := Store{Dir: dir, Name: "kubelet-client"}
	update := func(name string) {
		_, err := store.Update(ca.Issue(name, time.Now().Add(time.Hour)))
		require.NoError(t, err)
	}
	update("first")
	write(t, at(dir, "ca.crt"), ca.PEM)
	text := apitest.Kubeconfig(address, "client-certificate: kubelet-client-current.pem\n    client-key: kubelet-client-current.pem")
	write(t, at(dir, "kubeconfig"), []byte(strings.Replace(text, "server:", "certificate-authority: ca.crt\n    server:", 1)))
	client, err := apiserver.New(apiserver.Config{Kubeconfig: at(dir, "kubeconfig"), UserAgent: "test/1", Period: 10 * time.Millisecond})
	require.NoError(t, err)
	apitest.Run(t, client.Run)
	seenAs := func() string {
		_, _ = client.ConfigMaps("ns").Get(t.Context(), "a", metav1.GetOptions{}) // not found
		calls := server.Calls()
		return calls[len(calls)-1].User
	}
	require.Equal(t, "first", seenAs())
	for _, user := range []string{"second", "third"} {
		update(user)
		require.Eventually(t, func() bool { return seenAs() == user }, time.Minute, 20*time.Millisecond)
	}
	require.Equal(t, "third", seenAs())
}
