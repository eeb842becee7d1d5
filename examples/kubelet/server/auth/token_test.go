package auth

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func encoded(token string) string {
	return protocolPrefix + base64.RawURLEncoding.EncodeToString([]byte(token))
}

func TestTakeToken(t *testing.T) {
	for name, x := range map[string]struct{ header, protocols, token, left, says string }{
		"none":                 {},
		"bearer":               {header: "Bearer abc", token: "abc"},
		"case":                 {header: " bEARER abc ", token: "abc"},
		"more words":           {header: "Bearer abc def", token: "abc"},
		"empty":                {header: "Bearer "},
		"a space too many":     {header: "Bearer  abc"},
		"basic":                {header: "Basic abc", left: "Basic abc"},
		"websocket":            {protocols: "v4.channel.k8s.io, " + encoded("abc"), token: "abc"},
		"header first":         {header: "Bearer abc", protocols: "v4, " + encoded("def"), token: "abc"},
		"websocket, no other":  {protocols: encoded("abc"), says: "a second subprotocol"},
		"websocket, two":       {protocols: "v4," + encoded("abc") + "," + encoded("abc"), says: "must have one token"},
		"websocket, no base64": {protocols: "v4," + protocolPrefix + "%", says: "must have one token"},
		"websocket, no UTF-8":  {protocols: "v4," + encoded("\xff"), says: "must have one token"},
		"websocket, empty":     {protocols: "v4," + protocolPrefix},
		"websocket, other":     {protocols: "v4"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &http.Request{Header: http.Header{}}
			if x.header != "" {
				r.Header.Set("Authorization", x.header)
			}
			if x.protocols != "" {
				r.Header.Set("Upgrade", "WebSocket")
				r.Header.Add("Connection", "keep-alive")
				r.Header.Add("Connection", "Upgrade")
				r.Header.Set("Sec-WebSocket-Protocol", x.protocols)
			}
			token, err := takeToken(r)
			if x.says != "" {
				require.ErrorContains(t, err, x.says)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, x.token, token)
			require.Equal(t, x.left, r.Header.Get("Authorization"))
			if x.protocols != "" && x.token != "" && x.header == "" {
				require.Equal(t, "v4.channel.k8s.io", r.Header.Get("Sec-WebSocket-Protocol"))
			}
		})
	}
	r := &http.Request{Header: http.Header{"Sec-Websocket-Protocol": {"v4," + encoded("abc")}}}
	token, err := takeToken(r)
	require.NoError(t, err)
	require.Empty(t, token, "not a websocket request")
}

func FuzzProtocolToken(f *testing.F) {
	f.Add("v4," + encoded("abc"))
	f.Add(encoded("") + ",,")
	f.Fuzz(func(t *testing.T, value string) {
		token, others, err := protocolToken([]string{value})
		if err != nil {
			require.Empty(t, token)
			return
		}
		require.True(t, utf8.ValidString(token))
		for _, o := range others {
			require.False(t, strings.HasPrefix(o, protocolPrefix), "the token is not passed on")
		}
		require.False(t, token != "" && len(others) == 0)
	})
}
