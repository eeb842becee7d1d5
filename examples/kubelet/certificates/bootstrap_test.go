package certificates

import (
	"crypto/x509"
	"encoding/base64"
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
	*Rotator
	t          *testing.T
	kubeconfig string
	client     *apiserver.Client
	store      Store
	config     RotatorConfig
	rotates    bool
}

// bootstrapping runs a test with and without rotateCertificates.
func bootstrapping(t *testing.T, test func(t *testing.T, j *joining)) {
	for name, rotates := range map[string]bool{"bootstrap only": false, "rotating": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				test(t, &joining{
					cluster: newCluster(t), t: t, kubeconfig: at(dir, "etc/kubeconfig"), store: Store{Dir: at(dir, "pki"), Name: "kubelet-client"}, rotates: rotates,
				})
			})
		})
	}
}

// new creates a client and a Rotator, as a start of the agent does.
func (j *joining) new() (err error) {
	cfg := apiserver.Config{Kubeconfig: j.kubeconfig, UserAgent: "test/1", Dial: j.Dial, Await: true, Limits: apiserver.Limits{QPS: -1}}
	if j.rotates {
		cfg.CertificateFile = j.store.CurrentPath()
	}
	j.client, err = apiserver.New(cfg)
	require.NoError(j.t, err)
	j.config = RotatorConfig{
		Client: j.client, Signer: certv1.KubeAPIServerClientKubeletSignerName, Store: j.store, Bootstrap: j.Kubeconfig, BootstrapOnly: !j.rotates,
		Template: func() *x509.CertificateRequest { return ClientRequest("worker") },
	}
	j.Rotator, err = NewRotator(j.config)
	return err
}

func (j *joining) start() (stop func()) {
	require.NoError(j.t, j.new())
	ends := []func(){apitest.Run(j.t, j.client.Run), apitest.Run(j.t, j.Run)}
	synctest.Wait()
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// joined checks that the client gets a usable kubeconfig now.
func (j *joining) joined(why ...any) {
	j.t.Helper()
	pass(3 * time.Second)
	require.NoError(j.t, j.client.Err(), why...)
	require.NoError(j.t, j.Err(), why...)
}

func (j *joining) requests() int {
	return len(apitest.All[*certv1.CertificateSigningRequest](j.Server))
}

// A14: a request is posted. After its approval a kubeconfig points to the certificate; later starts
// use only that.
func TestBootstrap(t *testing.T) {
	bootstrapping(t, func(t *testing.T, j *joining) {
		stop := j.start()
		request := j.only()
		require.Regexp(t, "^node-csr-[-_A-Za-z0-9]{43}$", request.Name)
		require.Equal(t, certv1.KubeAPIServerClientKubeletSignerName, request.Spec.SignerName)
		require.Equal(t, []certv1.KeyUsage{certv1.UsageDigitalSignature, certv1.UsageClientAuth}, request.Spec.Usages)
		began := time.Now()
		pass(10 * time.Minute)
		require.NoFileExists(t, j.kubeconfig)
		require.Error(t, j.client.Err())
		name, since := j.Awaited()
		require.Equal(t, request.Name, name)
		require.WithinDuration(t, began, since, time.Second)
		asked := j.issue(request, 100*time.Hour)
		require.Equal(t, "CN=system:node:worker,O=system:nodes", asked.Subject.String())
		j.joined()
		require.Len(t, names(t, j.store.Dir), 2, "the key file was removed")
		name, _ = j.Awaited()
		require.Empty(t, name)

		config, err := clientcmd.LoadFromFile(j.kubeconfig)
		require.NoError(t, err)
		require.Equal(t, "http://server.test", config.Clusters["default-cluster"].Server)
		user := config.AuthInfos["default-auth"]
		require.Equal(t, []string{j.store.CurrentPath(), j.store.CurrentPath()}, []string{user.ClientCertificate, user.ClientKey})
		require.Empty(t, user.Token, "the bootstrap credentials are not copied")
		info, err := os.Stat(j.kubeconfig)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode())
		require.Equal(t, began.Add(100*time.Hour+10*time.Minute).Unix(), j.client.Expires().Unix())

		stop()
		require.NoError(t, os.Remove(j.Kubeconfig))
		j.start()
		j.joined("the bootstrap kubeconfig is not read")
		require.Equal(t, 1, j.requests())
	})
}

// A bootstrap continues after a kill at any point.
func TestBootstrapAgain(t *testing.T) {
	bootstrapping(t, func(t *testing.T, j *joining) {
		stop := j.start()
		stop()
		require.FileExists(t, j.store.keyPath())

		stop = j.start() // the key and the request exist
		request := j.only()
		stop()
		j.issue(request, time.Hour)
		stop = j.start() // the server has the certificate
		j.joined()
		stop()

		require.NoError(t, os.Remove(j.kubeconfig)) // the store has the certificate
		j.SetDown(true)
		stop = j.start()
		j.joined()
		require.FileExists(t, j.kubeconfig)
		require.Equal(t, 1, j.requests())
		stop()

		j.SetDown(false)
		write(t, j.store.keyPath(), []byte("half a key"))
		require.NoError(t, os.Remove(j.store.CurrentPath()))
		j.start()
		j.issue(j.only(), time.Hour)
		j.joined("the certificate was removed")
	})
}

// The bootstrap continues through outages, unusable certificates and refusals. It starts again
// when the certificate has expired.
func TestBootstrapRetries(t *testing.T) {
	bootstrapping(t, func(t *testing.T, j *joining) {
		j.SetDown(true)
		j.start()
		time.Sleep(5 * time.Minute)
		require.ErrorContains(t, j.Err(), "connection refused")
		j.SetDown(false)
		pass(2 * pauseMax)
		j.issue(j.only(), -time.Minute)
		require.ErrorContains(t, j.Err(), "the issued certificate expired at")
		for range 3 {
			pass(pauseRefused * 5 / 4)
			j.decide(j.only(), certv1.CertificateDenied)
			require.ErrorIs(t, j.Err(), ErrDenied)
			require.NoFileExists(t, j.kubeconfig)
		}
		pass(pauseRefused * 5 / 4)
		j.issue(j.only(), 10*time.Minute)
		j.joined()

		time.Sleep(10 * time.Minute)
		require.ErrorIs(t, j.client.Err(), apiserver.ErrExpired)
		pass(approvalTimeout + 10*time.Minute) // also after an unapproved renewal
		pending := j.pending()
		require.NotEmpty(t, pending)
		j.issue(pending[len(pending)-1], 20*time.Minute)
		j.joined()

		answered := len(j.pending())
		j.SetDown(true)
		pass(time.Until(j.client.Expires()) + time.Second)
		j.SetDown(false)
		pass(2 * pauseLost)
		require.Greater(t, len(j.pending()), answered, "soon after an outage beyond the certificate's end")
	})
}

// A start fails if no kubeconfig can ever be used. It does not fail for an expired certificate,
// whose bootstrap kubeconfig is usually gone.
func TestUnusableBootstrapKubeconfig(t *testing.T) {
	bootstrapping(t, func(t *testing.T, j *joining) {
		good, err := os.ReadFile(j.Kubeconfig)
		require.NoError(t, err)
		write(t, j.Kubeconfig, []byte("a: ["))
		var wrong *apiserver.ConfigError
		require.ErrorAs(t, j.new(), &wrong)
		require.Equal(t, j.Kubeconfig, wrong.File)

		write(t, j.Kubeconfig, good)
		stop := j.start()
		j.issue(j.only(), time.Hour)
		j.joined()
		stop()
		require.NoError(t, os.Remove(j.Kubeconfig))
		time.Sleep(2 * time.Hour)
		j.start()
		pass(10 * time.Minute)
		require.ErrorIs(t, j.Err(), apiserver.ErrExpired)
		require.ErrorIs(t, j.Err(), fs.ErrNotExist)
		require.Contains(t, j.Err().Error(), j.Kubeconfig)

		write(t, j.Kubeconfig, good)
		pass(2 * pauseMax)
		j.issue(j.only(), time.Hour)
		j.joined()
	})
}

// With rotation, an embedded pair is used for a request at the start, and the store's certificate
// from then on, also after the end of the embedded pair. An unusable file in the store is replaced.
func TestEmbeddedPair(t *testing.T) {
	for _, stored := range []string{"nothing", "half", "expired"} {
		synctest.Test(t, func(t *testing.T) {
			j := &joining{cluster: newCluster(t), t: t, kubeconfig: at(t.TempDir(), "kubeconfig"), store: Store{Dir: t.TempDir(), Name: "kubelet-client"}, rotates: true}
			j.Kubeconfig = at(t.TempDir(), "none")
			cert, key := j.ca.pair(ClientRequest("worker"), 50*time.Hour)
			encode := base64.StdEncoding.EncodeToString
			write(t, j.kubeconfig, []byte(apitest.Kubeconfig("http://server.test", "client-certificate-data: "+encode(cert)+"\n    client-key-data: "+encode(key))))
			switch stored {
			case "half":
				write(t, at(j.store.Dir, "x.pem"), []byte("half"))
				require.NoError(t, os.Symlink("x.pem", j.store.CurrentPath()))
			case "expired":
				_, err := j.store.Update(j.ca.pair(ClientRequest("worker"), -time.Hour))
				require.NoError(t, err)
			}
			stop := j.start()
			require.Equal(t, time.Now().Add(50*time.Hour).Unix(), j.client.Expires().Unix())
			j.issue(j.only(), 100*time.Hour)
			j.joined()
			require.InDelta(t, 100, time.Until(j.client.Expires()).Hours(), 0.1)
			stop()
			time.Sleep(60 * time.Hour)
			j.start()
			require.NoError(t, j.client.Err(), "the newer pair is used beside the expired one")
			require.Empty(t, j.pending())
			for len(j.pending()) == 0 {
				pass(time.Hour)
			}
			require.InDelta(t, 80, 100-time.Until(j.client.Expires()).Hours(), 12)
		})
	}
}

// A store that cannot be written leads to no request. A kubeconfig that cannot be written leads to
// one.
func TestUnwritableFolders(t *testing.T) {
	bootstrapping(t, func(t *testing.T, j *joining) {
		require.NoError(t, os.WriteFile(j.store.Dir, nil, 0o600))
		j.start()
		pass(10 * time.Minute)
		require.ErrorContains(t, j.Err(), j.store.Dir)
		require.Zero(t, j.requests())
		require.NoError(t, os.Remove(j.store.Dir))
		require.NoError(t, os.MkdirAll(at(j.kubeconfig, "folder"), 0o700))
		pass(2 * pauseMax)
		j.issue(j.only(), 10*time.Hour)
		pass(10 * time.Minute)
		require.ErrorContains(t, j.Err(), j.kubeconfig)
		require.Equal(t, 1, j.requests())
		require.NoError(t, os.RemoveAll(j.kubeconfig))
		pass(2 * pauseMax)
		j.joined()
		require.Equal(t, 1, j.requests())
	})
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
