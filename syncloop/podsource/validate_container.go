package podsource

import (
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// containerChecker checks the containers of a pod. Names and host ports must be unique.
type containerChecker struct {
	*checker
	names     map[string]bool
	hostPorts map[hostPort]bool
	volumes   map[string]bool
}

type hostPort struct {
	protocol v1.Protocol
	ip       string
	port     int32
}

func (c *checker) checkContainers() {
	pod, cc := c.pod, &containerChecker{checker: c, names: map[string]bool{}, hostPorts: map[hostPort]bool{}, volumes: map[string]bool{}}
	for _, vol := range pod.Spec.Volumes {
		cc.volumes[vol.Name] = true
	}
	root := field.NewPath("spec")
	if len(pod.Spec.Containers) == 0 {
		cc.add(field.Required(root.Child("containers"), ""))
	}
	for i := range pod.Spec.InitContainers {
		c, at := &pod.Spec.InitContainers[i], root.Child("initContainers").Index(i)
		cc.container(c, at)
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
		if !sidecar && (c.LivenessProbe != nil || c.ReadinessProbe != nil || c.StartupProbe != nil || c.Lifecycle != nil) {
			cc.add(field.Forbidden(at, `probes and lifecycle hooks need restartPolicy "Always" in an init container`))
		}
	}
	for i := range pod.Spec.Containers {
		cc.container(&pod.Spec.Containers[i], root.Child("containers").Index(i))
	}
}

func (cc *containerChecker) container(c *v1.Container, at *field.Path) {
	cc.invalid(at.Child("name"), c.Name, validation.IsDNS1123Label(c.Name)...)
	unique(cc.checker, cc.names, c.Name, at.Child("name"), c.Name)
	if cc.required(at.Child("image"), c.Image) && strings.ContainsAny(c.Image, " \t\r\n") {
		cc.invalid(at.Child("image"), c.Image, "must not contain spaces")
	}
	oneOf(cc.checker, at.Child("imagePullPolicy"), c.ImagePullPolicy, v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)
	oneOf(cc.checker, at.Child("terminationMessagePolicy"), c.TerminationMessagePolicy, v1.TerminationMessageReadFile, v1.TerminationMessageFallbackToLogsOnError)
	if hasDotDot(c.TerminationMessagePath) {
		cc.invalid(at.Child("terminationMessagePath"), c.TerminationMessagePath, "must not contain '..'")
	}
	if c.RestartPolicy != nil {
		oneOf(cc.checker, at.Child("restartPolicy"), *c.RestartPolicy, v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyNever, v1.ContainerRestartPolicyOnFailure)
	}
	cc.ports(c, at)
	cc.mounts(c, at)
	cc.env(c, at)
	cc.checkResources(&c.Resources, at.Child("resources"))
	cc.handlers(c, at)
	cc.security(c.SecurityContext, at.Child("securityContext"))
}

func (cc *containerChecker) ports(c *v1.Container, at *field.Path) {
	names := map[string]bool{}
	for i, port := range c.Ports {
		at := at.Child("ports").Index(i)
		cc.checkPort(at.Child("containerPort"), port.ContainerPort)
		oneOf(cc.checker, at.Child("protocol"), port.Protocol, v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP)
		if port.Name != "" {
			cc.invalid(at.Child("name"), port.Name, validation.IsValidPortName(port.Name)...)
			unique(cc.checker, names, port.Name, at.Child("name"), port.Name)
		}
		if port.HostIP != "" {
			cc.add(validation.IsValidIP(at.Child("hostIP"), port.HostIP)...)
		}
		if port.HostPort == 0 {
			continue
		}
		cc.checkPort(at.Child("hostPort"), port.HostPort)
		if cc.pod.Spec.HostNetwork && port.HostPort != port.ContainerPort {
			cc.invalid(at.Child("hostPort"), port.HostPort, "must equal containerPort with hostNetwork")
		}
		unique(cc.checker, cc.hostPorts, hostPort{port.Protocol, port.HostIP, port.HostPort}, at.Child("hostPort"), port.HostPort)
	}
}

func (c *checker) checkPort(at *field.Path, port int32) {
	c.invalid(at, port, validation.IsValidPortNum(int(port))...)
}

func (cc *containerChecker) mounts(c *v1.Container, at *field.Path) {
	paths := map[string]bool{}
	for i, m := range c.VolumeMounts {
		at := at.Child("volumeMounts").Index(i)
		if !cc.volumes[m.Name] {
			cc.add(field.NotFound(at.Child("name"), m.Name))
		}
		switch clean := path.Clean(m.MountPath); {
		case !cc.absolute(at.Child("mountPath"), m.MountPath):
		case strings.Contains(m.MountPath, ":"):
			cc.invalid(at.Child("mountPath"), m.MountPath, "must not contain ':'")
		default:
			unique(cc.checker, paths, clean, at.Child("mountPath"), m.MountPath)
		}
		for name, sub := range map[string]string{"subPath": m.SubPath, "subPathExpr": m.SubPathExpr} {
			if path.IsAbs(sub) || hasDotDot(sub) {
				cc.invalid(at.Child(name), sub, "must be relative and must not contain '..'")
			}
		}
		if m.SubPath != "" && m.SubPathExpr != "" {
			cc.add(field.Forbidden(at.Child("subPathExpr"), "cannot be combined with subPath"))
		}
		if m.MountPropagation != nil {
			cc.propagation(*m.MountPropagation, c.SecurityContext, at.Child("mountPropagation"))
		}
	}
	for i, dev := range c.VolumeDevices {
		if !cc.volumes[dev.Name] {
			cc.add(field.NotFound(at.Child("volumeDevices").Index(i).Child("name"), dev.Name))
		}
	}
}

func (cc *containerChecker) propagation(mode v1.MountPropagationMode, sc *v1.SecurityContext, at *field.Path) {
	oneOf(cc.checker, at, mode, v1.MountPropagationNone, v1.MountPropagationHostToContainer, v1.MountPropagationBidirectional)
	privileged := sc != nil && sc.Privileged != nil && *sc.Privileged
	if mode == v1.MountPropagationBidirectional && !privileged {
		cc.add(field.Forbidden(at, "Bidirectional needs a privileged container"))
	}
}

func (cc *containerChecker) env(c *v1.Container, at *field.Path) {
	for i, env := range c.Env {
		at := at.Child("env").Index(i)
		if cc.required(at.Child("name"), env.Name) {
			cc.invalid(at.Child("name"), env.Name, validation.IsRelaxedEnvVarName(env.Name)...)
		}
		if env.ValueFrom == nil {
			continue
		}
		if env.Value != "" {
			cc.add(field.Forbidden(at.Child("valueFrom"), "cannot be combined with value"))
		}
		from := env.ValueFrom
		if count(from.FieldRef != nil, from.ResourceFieldRef != nil, from.SecretKeyRef != nil, from.ConfigMapKeyRef != nil, from.FileKeyRef != nil) != 1 {
			cc.invalid(at.Child("valueFrom"), "", "must name exactly one source")
		}
		if from.FieldRef != nil {
			cc.required(at.Child("valueFrom", "fieldRef", "fieldPath"), from.FieldRef.FieldPath)
		}
		if from.ResourceFieldRef != nil {
			cc.required(at.Child("valueFrom", "resourceFieldRef", "resource"), from.ResourceFieldRef.Resource)
		}
	}
}

func (cc *containerChecker) handlers(c *v1.Container, at *field.Path) {
	cc.probe(c.LivenessProbe, at.Child("livenessProbe"), true)
	cc.probe(c.StartupProbe, at.Child("startupProbe"), true)
	cc.probe(c.ReadinessProbe, at.Child("readinessProbe"), false)
	if c.Lifecycle == nil {
		return
	}
	cc.hook(c.Lifecycle.PostStart, at.Child("lifecycle", "postStart"))
	cc.hook(c.Lifecycle.PreStop, at.Child("lifecycle", "preStop"))
}

func (cc *containerChecker) probe(p *v1.Probe, at *field.Path, oneSuccess bool) {
	if p == nil {
		return
	}
	if count(p.Exec != nil, p.HTTPGet != nil, p.TCPSocket != nil, p.GRPC != nil) != 1 {
		cc.invalid(at, "", "must name exactly one of exec, httpGet, tcpSocket, grpc")
	}
	for name, value := range map[string]int32{"timeoutSeconds": p.TimeoutSeconds, "periodSeconds": p.PeriodSeconds,
		"successThreshold": p.SuccessThreshold, "failureThreshold": p.FailureThreshold} {
		if value < 1 {
			cc.invalid(at.Child(name), value, "must be at least 1")
		}
	}
	if p.InitialDelaySeconds < 0 {
		cc.invalid(at.Child("initialDelaySeconds"), p.InitialDelaySeconds, "must not be negative")
	}
	if oneSuccess && p.SuccessThreshold > 1 {
		cc.invalid(at.Child("successThreshold"), p.SuccessThreshold, "must be 1")
	}
	cc.atLeast(at.Child("terminationGracePeriodSeconds"), p.TerminationGracePeriodSeconds, 1)
	cc.actions(p.Exec, p.HTTPGet, p.TCPSocket, at)
	if p.GRPC != nil {
		cc.checkPort(at.Child("grpc", "port"), p.GRPC.Port)
	}
}

func (cc *containerChecker) hook(h *v1.LifecycleHandler, at *field.Path) {
	if h == nil {
		return
	}
	if count(h.Exec != nil, h.HTTPGet != nil, h.TCPSocket != nil, h.Sleep != nil) != 1 {
		cc.invalid(at, "", "must name exactly one of exec, httpGet, tcpSocket, sleep")
	}
	cc.actions(h.Exec, h.HTTPGet, h.TCPSocket, at)
	if h.Sleep != nil {
		cc.atLeast(at.Child("sleep", "seconds"), &h.Sleep.Seconds, 0)
	}
}

func (cc *containerChecker) actions(exec *v1.ExecAction, get *v1.HTTPGetAction, tcp *v1.TCPSocketAction, at *field.Path) {
	if exec != nil && len(exec.Command) == 0 {
		cc.add(field.Required(at.Child("exec", "command"), ""))
	}
	if get != nil {
		cc.portRef(get.Port, at.Child("httpGet", "port"))
		oneOf(cc.checker, at.Child("httpGet", "scheme"), get.Scheme, v1.URISchemeHTTP, v1.URISchemeHTTPS)
	}
	if tcp != nil {
		cc.portRef(tcp.Port, at.Child("tcpSocket", "port"))
	}
}

func (cc *containerChecker) portRef(port intstr.IntOrString, at *field.Path) {
	if port.Type == intstr.Int {
		cc.checkPort(at, port.IntVal)
		return
	}
	cc.invalid(at, port.StrVal, validation.IsValidPortName(port.StrVal)...)
}

func (cc *containerChecker) security(sc *v1.SecurityContext, at *field.Path) {
	if sc == nil {
		return
	}
	cc.checkIDs(sc.RunAsUser, sc.RunAsGroup, at)
	if sc.ProcMount != nil {
		oneOf(cc.checker, at.Child("procMount"), *sc.ProcMount, v1.DefaultProcMount, v1.UnmaskedProcMount)
	}
	privileged := sc.Privileged != nil && *sc.Privileged
	if privileged && sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation {
		cc.invalid(at.Child("allowPrivilegeEscalation"), false, "cannot be false with privileged")
	}
}

func count(conditions ...bool) int {
	n := 0
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

// checkResources refuses limits below requests.
func (c *checker) checkResources(r *v1.ResourceRequirements, at *field.Path) {
	if r == nil {
		return
	}
	c.checkResourceNames(r.Limits, at.Child("limits"))
	c.checkResourceNames(r.Requests, at.Child("requests"))
	for name, request := range r.Requests {
		if limit, ok := r.Limits[name]; ok && request.Cmp(limit) > 0 {
			c.invalid(at.Child("requests").Key(string(name)), request.String(), "must not exceed the limit of "+limit.String())
		}
	}
}

func (c *checker) checkResourceNames(list v1.ResourceList, at *field.Path) {
	for name := range list {
		c.invalid(at.Key(string(name)), string(name), validation.IsQualifiedName(string(name))...)
	}
}
