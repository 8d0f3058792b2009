{{/* The pod of a node with an API: an owner, or an API node. The argument is a dict: root, pod, component, roles, advertise. */}}

{{- define "sagalog.nodeEnv" -}}
{{- $v := .root.Values -}}
{{- $service := include "sagalog.fullname" .root -}}
{{- $host := include "sagalog.serviceHost" .root -}}
- {name: SAGALOG_NODE, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: SAGALOG_ROLES, value: {{ join "," .roles | quote }}}
- {name: SAGALOG_NAMESPACE, value: {{ $v.engine.namespace | quote }}}
{{- with $v.engine.partitions }}
- {name: SAGALOG_PARTITIONS, value: {{ int . | quote }}}
{{- end }}
{{- with $v.engine.startWithin }}
- {name: SAGALOG_START_WITHIN, value: {{ . | quote }}}
{{- end }}
- {name: SAGALOG_DATA, value: /data}
- {name: SAGALOG_HTTP, value: ":8642"}
- {name: SAGALOG_ADVERTISE, value: {{ .advertise | quote }}}
- name: SAGALOG_HOST
  value: {{ concat (list $service (printf "%s.%s" $service .root.Release.Namespace) $host (printf "%s.%s" $host $v.clusterDomain)) $v.http.hosts | join "," | quote }}
{{ include "sagalog.kafkaEnv" (include "sagalog.kafka" (dict "root" .root) | fromJson) }}
{{- with $v.access }}
{{- if and .secret .tokensKey }}
- {name: SAGALOG_TOKENS, value: /etc/sagalog/access/{{ .tokensKey }}}
{{- end }}
- {name: SAGALOG_NODE_KEY_FILE, value: /etc/sagalog/access/{{ .nodeKey }}}
{{- if .oidc.issuer }}
- {name: SAGALOG_OIDC_ISSUER, value: {{ .oidc.issuer | quote }}}
- {name: SAGALOG_OIDC_AUDIENCE, value: {{ .oidc.audience | quote }}}
- {name: SAGALOG_OIDC_ROLE, value: {{ join "," .oidc.roles | quote }}}
{{- with .oidc.roleClaim }}
- {name: SAGALOG_OIDC_ROLE_CLAIM, value: {{ . | quote }}}
{{- end }}
{{- with .oidc.nameClaim }}
- {name: SAGALOG_OIDC_NAME_CLAIM, value: {{ . | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- if $v.http.tls.secret }}
- {name: SAGALOG_HTTP_TLS_CERT, value: /etc/sagalog/http/tls.crt}
- {name: SAGALOG_HTTP_TLS_KEY, value: /etc/sagalog/http/tls.key}
- {name: SAGALOG_HTTP_TLS_CA, value: /etc/sagalog/http/ca.crt}
{{- end }}
{{- if $v.callbacks.secret }}
- {name: SAGALOG_CALLBACK_KEY_FILE, value: /etc/sagalog/callbacks/{{ $v.callbacks.key }}}
{{- end }}
{{- if has "owner" .roles }}
{{- include "sagalog.ownerEnv" .root }}
{{- end }}
{{- with .pod.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Only owners send messages and apply workflows. */}}
{{- define "sagalog.ownerEnv" -}}
{{- with .Values.webhook }}
{{- if .secret }}
{{- if .urlSecret }}
- {name: SAGALOG_WEBHOOK, valueFrom: {secretKeyRef: {name: {{ .urlSecret | quote }}, key: {{ .urlKey | quote }}}}}
{{- else }}
- {name: SAGALOG_WEBHOOK, value: {{ .url | quote }}}
{{- end }}
- {name: SAGALOG_WEBHOOK_SECRET_FILE, value: /etc/sagalog/webhook/{{ .secretKey }}}
{{- with .on }}
- {name: SAGALOG_WEBHOOK_ON, value: {{ join "," . | quote }}}
{{- end }}
{{- with .from }}
- {name: SAGALOG_WEBHOOK_FROM, value: {{ . | quote }}}
{{- end }}
{{- if .allowHTTP }}
- {name: SAGALOG_WEBHOOK_ALLOW_HTTP, value: "true"}
{{- end }}
{{- end }}
{{- end }}
{{- if or .Values.workflows.files .Values.workflows.configMap }}
- {name: SAGALOG_WORKFLOWS, value: /etc/sagalog/workflows}
{{- end }}
{{- end -}}

{{- define "sagalog.nodeContainer" -}}
{{- $v := .root.Values -}}
{{- $owner := has "owner" .roles -}}
- name: sagalog
  image: {{ include "sagalog.image" (dict "root" .root "image" $v.image) | quote }}
  imagePullPolicy: {{ $v.image.pullPolicy }}
  args: [serve]
  env:
    {{- include "sagalog.nodeEnv" . | nindent 4 }}
  ports:
    - {name: http, containerPort: 8642}
  {{- include "sagalog.probes" (dict "root" .root "ready" "/readyz" "port" "http" "scheme" (include "sagalog.scheme" .root | upper)) | nindent 2 }}
  resources: {{- toYaml .pod.resources | nindent 4 }}
  securityContext: {{- toYaml $v.securityContext | nindent 4 }}
  volumeMounts:
    - {name: data, mountPath: /data}
    - {name: tmp, mountPath: /tmp}
    - {name: access, mountPath: /etc/sagalog/access, readOnly: true}
    {{- include "sagalog.kafkaMounts" (include "sagalog.kafka" (dict "root" .root) | fromJson) | nindent 4 }}
    {{- if $v.http.tls.secret }}
    - {name: http-tls, mountPath: /etc/sagalog/http, readOnly: true}
    {{- end }}
    {{- if $v.callbacks.secret }}
    - {name: callbacks, mountPath: /etc/sagalog/callbacks, readOnly: true}
    {{- end }}
    {{- if and $owner $v.webhook.secret }}
    - {name: webhook, mountPath: /etc/sagalog/webhook, readOnly: true}
    {{- end }}
    {{- if and $owner (or $v.workflows.files $v.workflows.configMap) }}
    - {name: workflows, mountPath: /etc/sagalog/workflows, readOnly: true}
    {{- end }}
{{- end -}}

{{/* All volumes but the one named data. */}}
{{- define "sagalog.nodeVolumes" -}}
{{- $v := .root.Values -}}
{{- $owner := has "owner" .roles -}}
# Answers to bulk submissions that nobody reads wait here, at most 512 MiB.
- {name: tmp, emptyDir: {sizeLimit: 600Mi}}
{{ include "sagalog.secretVolume" (dict "name" "access" "secret" $v.access.secret) }}
{{- include "sagalog.kafkaVolumes" (include "sagalog.kafka" (dict "root" .root) | fromJson) }}
{{- with $v.http.tls.secret }}
{{ include "sagalog.secretVolume" (dict "name" "http-tls" "secret" .) }}
{{- end }}
{{- with $v.callbacks.secret }}
{{ include "sagalog.secretVolume" (dict "name" "callbacks" "secret" .) }}
{{- end }}
{{- if $owner }}
{{- with $v.webhook.secret }}
{{ include "sagalog.secretVolume" (dict "name" "webhook" "secret" .) }}
{{- end }}
{{- if or $v.workflows.files $v.workflows.configMap }}
- {name: workflows, configMap: {name: {{ default (printf "%s-workflows" (include "sagalog.fullname" .root)) $v.workflows.configMap | quote }}}}
{{- end }}
{{- end }}
{{- end -}}
