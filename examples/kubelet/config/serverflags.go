package config

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// A twin is a flag that sets a field of the configuration file, over what the file says.
type twin struct {
	name, usage string
	// set reads the flag's text into the field. A switch may be given without a text.
	set      func(k *kubeletv1beta1.KubeletConfiguration, text string) error
	isSwitch bool
}

// textTwin is a twin of a string, switchTwin of a bool, timeTwin of a duration.
func textTwin(name, usage string, field func(*kubeletv1beta1.KubeletConfiguration) *string) twin {
	return twin{name: name, usage: usage, set: func(k *kubeletv1beta1.KubeletConfiguration, text string) error {
		*field(k) = text
		return nil
	}}
}

func switchTwin(name, usage string, field func(*kubeletv1beta1.KubeletConfiguration) **bool) twin {
	return twin{name: name, usage: usage, isSwitch: true, set: func(k *kubeletv1beta1.KubeletConfiguration, text string) error {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		*field(k) = &on
		return nil
	}}
}

func timeTwin(name, usage string, field func(*kubeletv1beta1.KubeletConfiguration) *metav1.Duration) twin {
	return twin{name: name, usage: usage, set: func(k *kubeletv1beta1.KubeletConfiguration, text string) (err error) {
		field(k).Duration, err = time.ParseDuration(text)
		return err
	}}
}

// serverTwins concern the kubelet API.
var serverTwins = []twin{
	{name: "port", usage: "port of the kubelet API (default 10250)", set: func(k *kubeletv1beta1.KubeletConfiguration, text string) error {
		port, err := strconv.ParseInt(text, 10, 32)
		k.Port = int32(port)
		return err
	}},
	{name: "tls-cipher-suites", usage: "names of the cipher suites of TLS 1.2, with commas between (default: Go's)", set: func(k *kubeletv1beta1.KubeletConfiguration, text string) error {
		k.TLSCipherSuites = strings.Split(text, ",")
		return nil
	}},
	{name: "rotate-certificates", isSwitch: true, usage: "ask the API server for the next client certificate in time", set: func(k *kubeletv1beta1.KubeletConfiguration, text string) (err error) {
		k.RotateCertificates, err = strconv.ParseBool(text)
		return err
	}},
	{name: "rotate-server-certificates", isSwitch: true, usage: "ask the API server for the certificate of the kubelet API (serverTLSBootstrap)", set: func(k *kubeletv1beta1.KubeletConfiguration, text string) (err error) {
		k.ServerTLSBootstrap, err = strconv.ParseBool(text)
		return err
	}},
	textTwin("address", "address of the kubelet API and of the read-only port (default 0.0.0.0)", func(k *kubeletv1beta1.KubeletConfiguration) *string { return &k.Address }),
	textTwin("client-ca-file", "certificates of the authorities that vouch for clients of the kubelet API", func(k *kubeletv1beta1.KubeletConfiguration) *string { return &k.Authentication.X509.ClientCAFile }),
	textTwin("authorization-mode", "who may use the kubelet API: AlwaysAllow, or Webhook, which asks the API server (default)", func(k *kubeletv1beta1.KubeletConfiguration) *string { return (*string)(&k.Authorization.Mode) }),
	textTwin("tls-cert-file", "certificate of the kubelet API (default: one of its own making in --cert-dir)", func(k *kubeletv1beta1.KubeletConfiguration) *string { return &k.TLSCertFile }),
	textTwin("tls-private-key-file", "key of --tls-cert-file", func(k *kubeletv1beta1.KubeletConfiguration) *string { return &k.TLSPrivateKeyFile }),
	textTwin("tls-min-version", "lowest version of TLS: VersionTLS12 (default) or VersionTLS13", func(k *kubeletv1beta1.KubeletConfiguration) *string { return &k.TLSMinVersion }),
	switchTwin("enable-server", "serve the kubelet API (default true)", func(k *kubeletv1beta1.KubeletConfiguration) **bool { return &k.EnableServer }),
	switchTwin("enable-debugging-handlers", "logs, exec, attach and port-forward on the kubelet API (default true)", func(k *kubeletv1beta1.KubeletConfiguration) **bool { return &k.EnableDebuggingHandlers }),
	switchTwin("anonymous-auth", "let in who shows no credentials, as far as authorization allows (default false)", func(k *kubeletv1beta1.KubeletConfiguration) **bool { return &k.Authentication.Anonymous.Enabled }),
	switchTwin("authentication-token-webhook", "let the API server tell whose a bearer token is (default true)", func(k *kubeletv1beta1.KubeletConfiguration) **bool { return &k.Authentication.Webhook.Enabled }),
	timeTwin("authentication-token-webhook-cache-ttl", "how long an answer about a token counts (default 2m)", func(k *kubeletv1beta1.KubeletConfiguration) *metav1.Duration {
		return &k.Authentication.Webhook.CacheTTL
	}),
	timeTwin("authorization-webhook-cache-authorized-ttl", "how long a permission counts (default 5m)", func(k *kubeletv1beta1.KubeletConfiguration) *metav1.Duration {
		return &k.Authorization.Webhook.CacheAuthorizedTTL
	}),
	timeTwin("authorization-webhook-cache-unauthorized-ttl", "how long a refusal counts (default 30s)", func(k *kubeletv1beta1.KubeletConfiguration) *metav1.Duration {
		return &k.Authorization.Webhook.CacheUnauthorizedTTL
	}),
	timeTwin("streaming-connection-idle-timeout", "when a session ends over which nothing goes (default 4h)", func(k *kubeletv1beta1.KubeletConfiguration) *metav1.Duration {
		return &k.StreamingConnectionIdleTimeout
	}),
}

// addTwins adds flags, whose texts are put over the file's fields later.
func (l *commandLine) addTwins(fs *flag.FlagSet, twins []twin) {
	for _, t := range twins {
		read := func(text string) error {
			l.twins = append(l.twins, func(k *kubeletv1beta1.KubeletConfiguration) { _ = t.set(k, text) }) // it was taken once
			return t.set(new(kubeletv1beta1.KubeletConfiguration), text)
		}
		if t.isSwitch {
			fs.BoolFunc(t.name, t.usage, read)
		} else {
			fs.Func(t.name, t.usage, read)
		}
	}
}
