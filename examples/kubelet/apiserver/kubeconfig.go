package apiserver

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	iofs "io/fs"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"github.com/podwright/podwright/internal/fs"
)

// ErrExpired is wrapped by errors about an expired client certificate.
var ErrExpired = errors.New("the client certificate has expired")

// ConfigError is an error in a kubeconfig.
type ConfigError struct {
	// File is the path of the kubeconfig. Part is the field with the error, or "" for the whole
	// file.
	File, Part string
	Err        error
}

// Error returns one line.
func (e *ConfigError) Error() string {
	text := strings.Join(strings.Fields(e.Err.Error()), " ")
	if e.Part == "" {
		return fmt.Sprintf("kubeconfig %s: %s", e.File, text)
	}
	return fmt.Sprintf("kubeconfig %s: %s: %s", e.File, e.Part, text)
}

func (e *ConfigError) Unwrap() error { return e.Err }

type kubeconfig struct {
	rest *rest.Config
	// digest identifies the content. files are all files that it was read from.
	digest [sha256.Size]byte
	files  []string
	// expires is the expiry of the client certificate, or zero without one. expired is the error after
	// that time.
	expires time.Time
	expired *ConfigError
}

// checkExpiry returns an error about an expired client certificate.
func (k *kubeconfig) checkExpiry(now time.Time) error {
	if k.expires.IsZero() || now.Before(k.expires) {
		return nil
	}
	return k.expired
}

type reading struct {
	file    string
	context *api.Context
	cluster *api.Cluster
	user    *api.AuthInfo
	content map[string][]byte
}

// readKubeconfig reads a file and the files that it references. certificate is an optional file
// with a client certificate that replaces the file's own if it is usable. All errors are
// ConfigErrors.
func readKubeconfig(file, certificate string, now time.Time) (*kubeconfig, error) {
	r := &reading{file: file, content: map[string][]byte{}}
	config, err := r.load()
	if err != nil {
		return nil, err
	}
	if err := r.choose(config); err != nil {
		return nil, err
	}
	if err := r.checkServer(); err != nil {
		return nil, err
	}
	r.prefer(certificate, now)
	out := &kubeconfig{}
	if err := r.checkUser(out); err != nil {
		return nil, err
	}
	// From here on, only this package reads the files again.
	r.cluster.CertificateAuthority, r.user.ClientCertificate, r.user.ClientKey = "", "", ""
	out.files, out.digest = slices.Sorted(maps.Keys(r.content)), r.digest()
	if certificate != "" && r.content[certificate] == nil {
		out.files = append(out.files, certificate) // it may appear later
	}
	out.rest, err = clientcmd.NewNonInteractiveClientConfig(*config, config.CurrentContext, nil, nil).ClientConfig()
	if err != nil {
		return nil, r.wrong("", err)
	}
	return out, nil
}

func (r *reading) wrong(part string, err error) error {
	var path *iofs.PathError
	if part == "" && errors.As(err, &path) && path.Path == r.file {
		err = path.Err // the error names the file already
	}
	return &ConfigError{File: r.file, Part: part, Err: err}
}

func (r *reading) wrongf(part, format string, args ...any) error {
	return r.wrong(part, fmt.Errorf(format, args...))
}

func (r *reading) load() (*api.Config, error) {
	data, err := readFile(r.file)
	if err != nil {
		return nil, r.wrong("", err)
	}
	r.content[r.file] = data
	if len(strings.TrimSpace(string(data))) == 0 {
		return nil, r.wrong("", errors.New("the file is empty"))
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil, r.wrong("", err)
	}
	for _, c := range config.Clusters {
		c.LocationOfOrigin = r.file
	}
	for _, u := range config.AuthInfos {
		u.LocationOfOrigin = r.file
	}
	return config, r.asConfigError(clientcmd.ResolveLocalPaths(config))
}

func (r *reading) asConfigError(err error) error {
	if err == nil {
		return nil
	}
	return r.wrong("", err)
}

func (r *reading) choose(config *api.Config) error {
	name := config.CurrentContext
	if name == "" {
		return r.wrongf("current-context", "is required")
	}
	if r.context = config.Contexts[name]; r.context == nil {
		return r.wrongf("current-context", "context %q does not exist", name)
	}
	part := fmt.Sprintf("contexts[%s]", name)
	if r.context.Cluster == "" {
		return r.wrongf(part+".cluster", "is required")
	}
	if r.cluster = config.Clusters[r.context.Cluster]; r.cluster == nil {
		return r.wrongf(part+".cluster", "cluster %q does not exist", r.context.Cluster)
	}
	if r.context.AuthInfo == "" {
		return r.wrongf(part+".user", "is required")
	}
	if r.user = config.AuthInfos[r.context.AuthInfo]; r.user == nil {
		return r.wrongf(part+".user", "user %q does not exist", r.context.AuthInfo)
	}
	return nil
}

func (r *reading) checkServer() error {
	part := fmt.Sprintf("clusters[%s].", r.context.Cluster)
	server, err := url.Parse(r.cluster.Server)
	switch {
	case r.cluster.Server == "":
		return r.wrongf(part+"server", "is required")
	case err != nil:
		return r.wrong(part+"server", err)
	case server.Scheme != "https" && server.Scheme != "http" || server.Host == "":
		return r.wrongf(part+"server", "%q is not the address of a server: it must begin with https:// and name a host", r.cluster.Server)
	}
	field, err := r.data(part+"certificate-authority", &r.cluster.CertificateAuthorityData, r.cluster.CertificateAuthority)
	if err != nil {
		return err
	}
	if len(r.cluster.CertificateAuthorityData) > 0 {
		if _, err := cert.ParseCertsPEM(r.cluster.CertificateAuthorityData); err != nil {
			return r.wrong(field, err)
		}
	}
	return nil
}

// prefer sets the user's certificate from a file, if that is usable.
func (r *reading) prefer(certificate string, now time.Time) {
	if certificate == "" {
		return
	}
	content, err := readFile(certificate)
	if err != nil {
		return
	}
	pair, err := tls.X509KeyPair(content, content)
	if err != nil || !now.Before(pair.Leaf.NotAfter) {
		return
	}
	r.user.ClientCertificate, r.user.ClientKey = certificate, certificate
	r.user.ClientCertificateData, r.user.ClientKeyData = nil, nil
}

// checkUser checks the credentials, and sets the expiry of the certificate.
func (r *reading) checkUser(out *kubeconfig) error {
	part := fmt.Sprintf("users[%s].", r.context.AuthInfo)
	if r.user.TokenFile != "" {
		token, err := readFile(r.user.TokenFile) // client-go reads it again within a minute
		if err != nil {
			return r.wrong(part+"tokenFile", err)
		}
		if len(strings.TrimSpace(string(token))) == 0 {
			return r.wrongf(part+"tokenFile", "%s is empty", r.user.TokenFile)
		}
	}
	certField, err := r.data(part+"client-certificate", &r.user.ClientCertificateData, r.user.ClientCertificate)
	if err != nil {
		return err
	}
	keyField, err := r.data(part+"client-key", &r.user.ClientKeyData, r.user.ClientKey)
	if err != nil {
		return err
	}
	switch certs, keys := len(r.user.ClientCertificateData), len(r.user.ClientKeyData); {
	case certs == 0 && keys == 0:
		return nil
	case certs == 0:
		return r.wrongf(certField, "is required with a client key")
	case keys == 0:
		return r.wrongf(keyField, "is required with a client certificate")
	}
	return r.checkPair(certField, keyField, out)
}

func (r *reading) checkPair(certField, keyField string, out *kubeconfig) error {
	certs, err := cert.ParseCertsPEM(r.user.ClientCertificateData)
	if err != nil {
		return r.wrong(certField, err)
	}
	if _, err := tls.X509KeyPair(r.user.ClientCertificateData, r.user.ClientKeyData); err != nil {
		return r.wrong(keyField, err)
	}
	out.expires = certs[0].NotAfter
	err = fmt.Errorf("%w: at %s", ErrExpired, out.expires.Format(time.RFC3339))
	if r.user.ClientCertificate != "" {
		err = fmt.Errorf("%s: %w", r.user.ClientCertificate, err)
	}
	out.expired = &ConfigError{File: r.file, Part: certField, Err: err}
	return nil
}

// data reads the file of a field, unless the field's data is inline. It returns the name of the
// field in use.
func (r *reading) data(field string, data *[]byte, file string) (string, error) {
	if len(*data) > 0 || file == "" {
		return cmp.Or(map[bool]string{true: field + "-data"}[len(*data) > 0], field), nil
	}
	content, err := readFile(file)
	if err != nil {
		return field, r.wrong(field, err)
	}
	if len(content) == 0 {
		return field, r.wrongf(field, "%s is empty", file)
	}
	*data, r.content[file] = content, content
	return field, nil
}

// maxFile bounds a file of a kubeconfig, in bytes.
const maxFile = 4 << 20

// readFile reads a regular file. It does not wait for the writer of a pipe.
func readFile(path string) ([]byte, error) {
	r := fs.Reader{MaxSize: maxFile}.Read(path, fs.Stamp{})
	switch {
	case r.Vanished:
		return nil, &iofs.PathError{Op: "open", Path: path, Err: syscall.ENOENT}
	case r.Problem != "":
		return nil, &iofs.PathError{Op: "read", Path: path, Err: errors.New(r.Problem)}
	}
	return r.Data, nil
}

func (r *reading) digest() [sha256.Size]byte {
	h := sha256.New()
	for _, file := range slices.Sorted(maps.Keys(r.content)) {
		fmt.Fprintf(h, "%q %d ", file, len(r.content[file]))
		h.Write(r.content[file])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// stamps returns a text that changes when files change. It does not read them.
func stamps(files []string) string {
	var all strings.Builder
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			fmt.Fprintf(&all, "%s: %v\n", file, err)
			continue
		}
		fmt.Fprintln(&all, file, info.Size(), info.ModTime().UnixNano(), fs.IDOf(info))
	}
	return all.String()
}
