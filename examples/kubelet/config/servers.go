package config

import (
	"time"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright/examples/kubelet/certificates"
)

// setStandalone sets up the kubelet API of a node without an API server, which cannot authenticate
// clients. It runs before SetDefaults. Without settings for authentication the API is not served.
func (c *Config) setStandalone() {
	k := &c.Kubelet
	if c.Flags.Kubeconfig != "" {
		return
	}
	a := &k.Authentication
	anonymous := a.Anonymous.Enabled != nil && *a.Anonymous.Enabled
	if !anonymous && a.Webhook.Enabled == nil && a.X509.ClientCAFile == "" && k.Authorization.Mode == "" {
		setNil(&k.EnableServer, false)
	}
	setNil(&a.Webhook.Enabled, false)
}

func setServer(k *kubeletv1beta1.KubeletConfiguration) {
	setNil(&k.EnableServer, true)
	set(&k.Port, 10250)
	setNil(&k.Authentication.Anonymous.Enabled, false)
	setNil(&k.Authentication.Webhook.Enabled, true)
	set(&k.Authorization.Mode, kubeletv1beta1.KubeletAuthorizationModeWebhook)
	set(&k.Authentication.Webhook.CacheTTL.Duration, 2*time.Minute)
	set(&k.Authorization.Webhook.CacheAuthorizedTTL.Duration, 5*time.Minute)
	set(&k.Authorization.Webhook.CacheUnauthorizedTTL.Duration, 30*time.Second)
	set(&k.StreamingConnectionIdleTimeout.Duration, 4*time.Hour)
	setNil(&k.EnableDebuggingHandlers, true)
	setNil(&k.EnableProfilingHandler, true)
	setNil(&k.EnableDebugFlagsHandler, true)
	setNil(&k.EnableSystemLogHandler, true)
	setNil(&k.EnableSystemLogQuery, false)
}

func (p *problems) api(c *Config) {
	f, k := &c.Flags, &c.Kubelet
	standalone := f.Kubeconfig == ""
	p.refuse(k.RotateCertificates && standalone, "rotateCertificates: needs the API server of --kubeconfig")
	p.refuse(f.BootstrapKubeconfig != "" && standalone, "--bootstrap-kubeconfig: needs --kubeconfig, which it makes")
	if !*k.EnableServer {
		return
	}
	webhook := k.Authorization.Mode == kubeletv1beta1.KubeletAuthorizationModeWebhook
	p.refuse(webhook && standalone, "authorization.mode: Webhook needs the API server of --kubeconfig; without one it can be AlwaysAllow, or enableServer false")
	p.refuse(*k.Authentication.Webhook.Enabled && standalone, "authentication.webhook.enabled: needs the API server of --kubeconfig")
	p.refuse(k.ServerTLSBootstrap && standalone, "serverTLSBootstrap: needs the API server of --kubeconfig")
	p.refuse((k.TLSCertFile == "") != (k.TLSPrivateKeyFile == ""), "tlsCertFile, tlsPrivateKeyFile: set both or neither")
	p.refuse(k.TLSCertFile != "" && k.ServerTLSBootstrap, "serverTLSBootstrap: contradicts tlsCertFile")
	settings, err := TLS(k)
	*p = append(*p, err)
	c.Warnings = append(c.Warnings, settings.Warnings()...)
}

// TLS returns the TLS settings of the kubelet API.
func TLS(k *kubeletv1beta1.KubeletConfiguration) (certificates.TLS, error) {
	return certificates.ParseTLS(k.TLSMinVersion, k.TLSCipherSuites, k.TLSCurvePreferences)
}

// APIAddress returns the host:port of the kubelet API, or "" if it is not served.
func (c *Config) APIAddress() string {
	if !*c.Kubelet.EnableServer {
		return ""
	}
	return address(c.Kubelet.Address, c.Kubelet.Port)
}
