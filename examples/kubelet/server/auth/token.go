package auth

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"
)

const (
	protocolHeader = "Sec-Websocket-Protocol"
	protocolPrefix = "base64url.bearer.authorization.k8s.io."
)

// takeToken returns the bearer token of a request, or "" without one. It removes the token from the
// headers, so that later handlers do not see it.
func takeToken(r *http.Request) (string, error) {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if strings.EqualFold(scheme, "bearer") {
		r.Header.Del("Authorization")
		token, _, _ := strings.Cut(rest, " ")
		if token != "" {
			return token, nil
		}
	}
	if !isWebsocket(r.Header) {
		return "", nil
	}
	token, others, err := protocolToken(r.Header[protocolHeader])
	if token != "" {
		r.Header.Set(protocolHeader, strings.Join(others, ","))
	}
	return token, err
}

func isWebsocket(h http.Header) bool {
	return strings.EqualFold(h.Get("Upgrade"), "websocket") && strings.Contains(strings.ToLower(strings.Join(h.Values("Connection"), ",")), "upgrade")
}

// protocolToken returns the token in the subprotocols of a websocket, which browsers use because
// they cannot set headers, and the other subprotocols. A second one is required, because the
// server must select a subprotocol in its response and cannot select the token.
func protocolToken(values []string) (token string, others []string, err error) {
	seen := false
	for protocol := range strings.SplitSeq(strings.Join(values, ","), ",") {
		encoded, is := strings.CutPrefix(strings.TrimSpace(protocol), protocolPrefix)
		if !is {
			others = append(others, encoded)
			continue
		}
		decoded, err := base64.RawURLEncoding.DecodeString(encoded)
		if err != nil || seen || !utf8.Valid(decoded) {
			return "", nil, errors.New(protocolHeader + ": must have one token in base64url")
		}
		seen, token = true, string(decoded)
	}
	if token != "" && len(others) == 0 {
		return "", nil, errors.New(protocolHeader + ": must have a second subprotocol besides the token")
	}
	return token, others, nil
}
