{{- define "sagalog.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Names of pods are names of nodes, of at most 63 characters with what Kubernetes appends. */}}
{{- define "sagalog.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "sagalog.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "sagalog.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "sagalog.headless" -}}{{ include "sagalog.fullname" . }}-nodes{{- end -}}

{{- define "sagalog.selector" -}}
app.kubernetes.io/name: {{ include "sagalog.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sagalog.labels" -}}
{{ include "sagalog.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "sagalog.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "sagalog.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The argument is a dict: root, image. */}}
{{- define "sagalog.image" -}}
{{- $tag := default .root.Chart.AppVersion .image.tag -}}
{{- if .image.digest -}}{{ .image.repository }}@{{ .image.digest }}{{- else -}}{{ .image.repository }}:{{ $tag }}{{- end -}}
{{- end -}}

{{- define "sagalog.scheme" -}}{{ if .Values.http.tls.secret }}https{{ else }}http{{ end }}{{- end -}}

{{- define "sagalog.serviceHost" -}}{{ include "sagalog.fullname" . }}.{{ .Release.Namespace }}.svc{{- end -}}

{{/* What no single value can be wrong about. */}}
{{- define "sagalog.check" -}}
{{- if not .Values.kafka.brokers -}}
{{- fail "kafka.brokers is empty: give HOST:PORT of some brokers, such as --set kafka.brokers[0]=kafka-0.kafka:9092" -}}
{{- end -}}
{{- with .Values.access -}}
{{- if not (or .oidc.issuer (and .secret .tokensKey)) -}}
{{- fail "access.secret or access.tokensKey is empty, and access.oidc.issuer too: every node listens on all addresses of its pod, so callers must be known. Name the Secret with tokens.json and node.key that `sagalog token init` made" -}}
{{- end -}}
{{- if and .oidc.issuer (not (and .oidc.audience .oidc.roles)) -}}
{{- fail "access.oidc.issuer needs access.oidc.audience and access.oidc.roles, such as [engineers=operator]" -}}
{{- end -}}
{{- if not (and .secret .nodeKey) -}}
{{- fail "access.secret or access.nodeKey is empty: nodes pass requests to each other, and know each other by the key in that Secret" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.workflows.files .Values.workflows.configMap -}}
{{- fail "workflows.files and workflows.configMap are both given: leave one out" -}}
{{- end -}}
{{- with .Values.webhook -}}
{{- if and .url .urlSecret -}}{{- fail "webhook.url and webhook.urlSecret are both given: leave one out" -}}{{- end -}}
{{- if and (or .url .urlSecret) (not .secret) -}}{{- fail "webhook.secret is empty: name the Secret with the key that signs the messages" -}}{{- end -}}
{{- if and .secret (not (or .url .urlSecret)) -}}{{- fail "webhook.url is empty: give the URL of the receiver, or leave out webhook.secret" -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* kafka with what differs for these agents. The argument is a dict: root, kafka. It prints JSON. */}}
{{- define "sagalog.kafka" -}}
{{- $kafka := mergeOverwrite (deepCopy .root.Values.kafka) (default dict .kafka) -}}
{{- if and $kafka.sasl.mechanism (not (and $kafka.sasl.user $kafka.sasl.secret)) -}}
{{- fail "kafka.sasl.mechanism needs kafka.sasl.user, and in kafka.sasl.secret the name of the Secret with its password" -}}
{{- end -}}
{{- toJson $kafka -}}
{{- end -}}

{{/* How a process reaches the brokers. The argument is the dict of sagalog.kafka. */}}
{{- define "sagalog.kafkaEnv" -}}
- {name: SAGALOG_BROKERS, value: {{ join "," .brokers | quote }}}
{{- if .tls.enabled }}
- {name: SAGALOG_TLS, value: "true"}
{{- with .tls.caSecret }}
- {name: SAGALOG_TLS_CA, value: /etc/sagalog/kafka-ca/{{ $.tls.caKey }}}
{{- end }}
{{- with .tls.clientSecret }}
- {name: SAGALOG_TLS_CERT, value: /etc/sagalog/kafka-client/tls.crt}
- {name: SAGALOG_TLS_KEY, value: /etc/sagalog/kafka-client/tls.key}
{{- end }}
{{- with .tls.serverName }}
- {name: SAGALOG_TLS_SERVER_NAME, value: {{ . | quote }}}
{{- end }}
{{- end }}
{{- if .sasl.mechanism }}
- {name: SAGALOG_SASL, value: {{ .sasl.mechanism | quote }}}
- {name: SAGALOG_SASL_USER, value: {{ .sasl.user | quote }}}
- {name: SAGALOG_SASL_PASSWORD_FILE, value: /etc/sagalog/kafka-sasl/{{ .sasl.key }}}
{{- end }}
{{- end -}}

{{- define "sagalog.kafkaMounts" -}}
{{- if and .tls.enabled .tls.caSecret }}
- {name: kafka-ca, mountPath: /etc/sagalog/kafka-ca, readOnly: true}
{{- end }}
{{- if and .tls.enabled .tls.clientSecret }}
- {name: kafka-client, mountPath: /etc/sagalog/kafka-client, readOnly: true}
{{- end }}
{{- if .sasl.mechanism }}
- {name: kafka-sasl, mountPath: /etc/sagalog/kafka-sasl, readOnly: true}
{{- end }}
{{- end -}}

{{/* A Secret as files that the process's group can read, and nobody else. The argument is a dict: name, secret. */}}
{{- define "sagalog.secretVolume" -}}
- {name: {{ .name }}, secret: {secretName: {{ .secret | quote }}, defaultMode: 0440}}
{{- end -}}

{{- define "sagalog.kafkaVolumes" -}}
{{- if and .tls.enabled .tls.caSecret }}
{{ include "sagalog.secretVolume" (dict "name" "kafka-ca" "secret" .tls.caSecret) }}
{{- end }}
{{- if and .tls.enabled .tls.clientSecret }}
{{ include "sagalog.secretVolume" (dict "name" "kafka-client" "secret" .tls.clientSecret) }}
{{- end }}
{{- if .sasl.mechanism }}
{{ include "sagalog.secretVolume" (dict "name" "kafka-sasl" "secret" .sasl.secret) }}
{{- end }}
{{- end -}}

{{/* The argument is a dict: root, pod (the values of this kind of pod), component. */}}
{{- define "sagalog.podPlacement" -}}
{{- with .pod.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .pod.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .pod.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .pod.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- if kindIs "slice" .pod.topologySpreadConstraints }}
{{- with .pod.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- else }}
topologySpreadConstraints:
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "sagalog.selector" $.root | nindent 8 }}
        app.kubernetes.io/component: {{ $.component }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The beginning of every pod's spec. The same argument. enableServiceLinks would make variables named SAGALOG_... */}}
{{- define "sagalog.podSpec" -}}
serviceAccountName: {{ include "sagalog.serviceAccount" .root }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .pod.terminationGracePeriodSeconds }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . | quote }}
{{- end }}
{{- end }}
securityContext: {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{ include "sagalog.podPlacement" . }}
{{- end -}}

{{/* Probes. The argument is a dict: root, ready (the path of readiness), port, scheme. */}}
{{- define "sagalog.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: {{ .port }}, scheme: {{ .scheme }}}
  {{- toYaml .root.Values.probes.startup | nindent 2 }}
livenessProbe:
  httpGet: {path: /healthz, port: {{ .port }}, scheme: {{ .scheme }}}
  {{- toYaml .root.Values.probes.liveness | nindent 2 }}
readinessProbe:
  httpGet: {path: {{ .ready }}, port: {{ .port }}, scheme: {{ .scheme }}}
  {{- toYaml .root.Values.probes.readiness | nindent 2 }}
{{- with .root.Values.preStopSleepSeconds }}
lifecycle:
  preStop: {sleep: {seconds: {{ . }}}}
{{- end }}
{{- end -}}
